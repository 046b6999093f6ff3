#pragma once

#include "mc2/planner/explanation.hpp"
#include "mc2/render/markup.hpp"

namespace mc2::cli {

/// Shows how the makespan adds up on the lane that bounds it, above the serial time.
[[nodiscard]] render::Markup account_chart(const planner::Explanation& explanation);

/// Shows how much slower each runner-up is predicted to be.
[[nodiscard]] render::Markup loss_chart(const planner::Explanation& explanation);

/// Shows how far each parameter may move before the decision changes.
[[nodiscard]] render::Markup sensitivity_chart(const planner::Sensitivity& sensitivity);

} // namespace mc2::cli
