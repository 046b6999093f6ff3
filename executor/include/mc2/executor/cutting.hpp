#pragma once

#include <cstdint>
#include <optional>

#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

/// The options for planning on the machine of a fingerprint where nobody has chosen: blocks of the backend's default
/// alignment. PlanOptions' own for a backend that this build does not know.
[[nodiscard]] planner::PlanOptions default_options_on(const planner::Fingerprint& machine);

/// What somebody says of the cuts that a plan was chosen from.
struct CutLimits {
  std::optional<std::int64_t> alignment, min_block_rows, max_block_count;
};

/// The cuts that a plan was probably chosen from: as said, else as its own backend cuts, else as its blocks show.
[[nodiscard]] planner::PlanOptions likely_limits(const planner::Plan& plan, const CutLimits& said = {});

} // namespace mc2::executor

#pragma GCC visibility pop
