#pragma once

#include "mc2/planner/explanation.hpp"
#include "mc2/render/markup.hpp"

namespace mc2::cli {

/// Shows how the makespan adds up on the lane that bounds it, above the serial time.
[[nodiscard]] render::Markup account_chart(const planner::Explanation& explanation);

/// Shows how much slower each runner-up is predicted to be.
[[nodiscard]] render::Markup loss_chart(const planner::Explanation& explanation);

/// What the green part of a parameter's bar means.
inline constexpr const char* kNearText = "this plan is within 1 % of the best";

/// Shows how far each parameter may move while the plan stays good, and where the decision changes. Nothing is marked
/// as good for a plan that is not as good as the best one today.
[[nodiscard]] render::Markup sensitivity_chart(const planner::Sensitivity& sensitivity);

} // namespace mc2::cli
