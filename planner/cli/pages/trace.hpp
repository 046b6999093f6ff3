#pragma once

#include <string>

#include "mc2/executor/communicator.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/render/trace.hpp"

namespace mc2::cli {

/// When each stage of a rank ran on its lane.
[[nodiscard]] render::MeasuredLanes measured_lanes(const planner::OpSpec& op, const executor::RankTimes& rank);

/// The trace of a run, as render::chrome_trace.
/// @param here  the machine that `record` was measured on
[[nodiscard]] std::string chrome_trace(const planner::Plan& plan, const executor::RunRecord& record,
                                       const planner::Fingerprint& here);

} // namespace mc2::cli
