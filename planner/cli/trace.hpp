#pragma once

#include <string>

#include "mc2/executor/communicator.hpp"
#include "mc2/planner/plan.hpp"

namespace mc2::cli {

/// A Chrome trace (chrome://tracing, ui.perfetto.dev): one process per measured rank with its two lanes, and one
/// process "predicted" with the plan's lanes beside them. Times in us from the start of the run.
/// @param here  where `record` was measured
[[nodiscard]] std::string chrome_trace(const planner::Plan& plan, const executor::RunRecord& record,
                                       const planner::Fingerprint& here);

} // namespace mc2::cli
