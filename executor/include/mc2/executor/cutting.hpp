#pragma once

#include <cstdint>
#include <optional>

#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

/// The options for planning an operator on the machine of a fingerprint: a single block where its backend does not cut
/// the operator. As they are for a backend that this build does not know.
[[nodiscard]] planner::PlanOptions options_on(const planner::Fingerprint& machine, const planner::OpSpec& op,
                                              planner::PlanOptions options);

/// What applies where nobody has chosen: blocks of the backend's default alignment. Otherwise as above.
[[nodiscard]] planner::PlanOptions default_options_on(const planner::Fingerprint& machine, const planner::OpSpec& op);

/// What somebody says of the cuts that a plan was chosen from.
struct CutLimits {
  std::optional<std::int64_t> alignment, min_block_rows, max_block_count;
};

/// The cuts that a plan was probably chosen from: as said, else as its own backend cuts, else as its blocks show.
[[nodiscard]] planner::PlanOptions likely_limits(const planner::Plan& plan, const CutLimits& said = {});

} // namespace mc2::executor

#pragma GCC visibility pop
