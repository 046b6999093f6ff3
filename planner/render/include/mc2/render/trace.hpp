#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/plan.hpp"

namespace mc2::render {

/// When the blocks of one rank ran on each lane. Each lane has as many spans as the plan has blocks.
struct MeasuredLanes {
  int rank = 0;
  std::optional<planner::Span> local; ///< matmul of the rank's own shard, if the kind has that part
  std::vector<planner::Span> compute, communication;
};

/// A Chrome trace (chrome://tracing, ui.perfetto.dev). It has one process with two lanes per measured rank, and one
/// process "predicted" with the lanes of the plan's timeline, if the plan has one. Times are in us from the start of
/// the run. The plan must pass planner::Plan::validate.
/// @param here  the machine that the ranks were measured on
[[nodiscard]] std::string chrome_trace(const planner::Plan& plan, std::span<const MeasuredLanes> ranks,
                                       const planner::Fingerprint& here);

} // namespace mc2::render
