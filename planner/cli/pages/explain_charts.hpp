#pragma once

#include "mc2/planner/explanation.hpp"
#include "mc2/render/markup.hpp"

namespace mc2::cli {

/// How the makespan adds up on the lane that bounds it, above the serial time.
[[nodiscard]] render::Markup account_chart(const planner::Explanation& explanation);

/// How much slower each runner-up is predicted.
[[nodiscard]] render::Markup loss_chart(const planner::Explanation& explanation);

/// How far each parameter may move before the decision changes. The explanation must have a sensitivity.
[[nodiscard]] render::Markup sensitivity_chart(const planner::Sensitivity& sensitivity);

} // namespace mc2::cli
