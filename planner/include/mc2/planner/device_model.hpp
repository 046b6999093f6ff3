#pragma once

#include <span>
#include <string_view>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// A device whose costs are published.
struct PublishedDevice {
  std::string_view name;       ///< as users name it, e.g. "ascend-910b"
  std::string_view source;     ///< where the constants come from
  std::string_view confidence; ///< what they were compared with
};

[[nodiscard]] std::span<const PublishedDevice> published_devices() noexcept;

/// A cost model of `op` on ranks of a device that nobody measured here, from published constants. Every curve is
/// analytic and names its source and how far to trust it. Formulas: docs/cost_model.md, "Published devices".
/// Errors: UnknownName listing the devices; InvalidSpec (op); Infeasible for an element type, kind or number of ranks
/// without published costs, for several experts on a rank, and for few rows that are cut along n.
[[nodiscard]] Result<CostModel> device_model(std::string_view device, const OpSpec& op);

} // namespace mc2::planner

#pragma GCC visibility pop
