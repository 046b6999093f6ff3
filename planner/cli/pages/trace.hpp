#pragma once

#include <string>

#include "mc2/executor/communicator.hpp"
#include "mc2/planner/plan.hpp"

namespace mc2::cli {

/// render::chrome_trace of a run. @param here  where `record` was measured
[[nodiscard]] std::string chrome_trace(const planner::Plan& plan, const executor::RunRecord& record,
                                       const planner::Fingerprint& here);

} // namespace mc2::cli
