#pragma once

#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/planner.hpp"

namespace mc2::executor {

/// The options for planning an operator on the machine of a fingerprint: a single block where its backend does not cut
/// the operator. As they are for a backend that this build does not know.
[[nodiscard]] planner::PlanOptions options_on(const planner::Fingerprint& machine, const planner::OpSpec& op,
                                              planner::PlanOptions options);

/// What applies where nobody has chosen: blocks of the backend's default alignment. Otherwise as above.
[[nodiscard]] planner::PlanOptions default_options_on(const planner::Fingerprint& machine, const planner::OpSpec& op);

} // namespace mc2::executor
