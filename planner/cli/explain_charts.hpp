#pragma once

#include "markup.hpp"
#include "mc2/planner/explanation.hpp"

namespace mc2::cli {

/// Both lanes, block by block, predicted and - where there is one - measured, on one time axis.
[[nodiscard]] Markup timeline_chart(const planner::Explanation& explanation);

/// How the makespan adds up on the lane that bounds it, above the serial time.
[[nodiscard]] Markup account_chart(const planner::Explanation& explanation);

/// How much slower each runner-up is predicted.
[[nodiscard]] Markup loss_chart(const planner::Explanation& explanation);

/// How far each parameter may move before the decision changes. The explanation must have a sensitivity.
[[nodiscard]] Markup sensitivity_chart(const planner::Sensitivity& sensitivity);

} // namespace mc2::cli
