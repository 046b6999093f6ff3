#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/plan.hpp"

namespace mc2::render {

/// When one rank's blocks were on each lane. As many spans as the plan has blocks.
struct MeasuredLanes {
  int rank = 0;
  std::optional<planner::Span> local; ///< matmul of the own shard, where the kind has one
  std::vector<planner::Span> compute, communication;
};

/// A Chrome trace (chrome://tracing, ui.perfetto.dev): one process per measured rank with its two lanes, and one
/// process "predicted" with the plan's lanes beside them. Times in us from the start of the run.
/// The plan must be one that planner::Plan::validate takes; without a timeline nothing is predicted.
/// @param here  where the ranks were measured
[[nodiscard]] std::string chrome_trace(const planner::Plan& plan, std::span<const MeasuredLanes> ranks,
                                       const planner::Fingerprint& here);

} // namespace mc2::render
