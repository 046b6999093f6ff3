#include "mc2/executor/block_times.hpp"

#include <algorithm>
#include <vector>

#include "mc2/planner/units.hpp"

namespace mc2::executor {
namespace {

using planner::Component;

constexpr double kMaxSlowdown = 20;

using planner::to_us;

const std::vector<StageTime>& lane_of(const RankTimes& times, Component component) {
  return component == Component::Matmul ? times.compute : times.communication;
}

/// The blocks of a lane that ran while the other lane was working, at least for a part of their time.
struct Overlap {
  double alone_us = 0;   ///< time of these blocks without the other lane
  double total_us = 0;   ///< time that they took
  double overlap_us = 0; ///< the part of total_us in which the other lane was working
  int count = 0;
};

/// @param alone  the lane's times without the other; the rank's own shard counts as a block of the matmul lane
Overlap overlap_of(const RankTimes& rank, Component component, std::size_t full_count, const BlockTime& alone) {
  const auto& lane = lane_of(rank, component);
  const auto& other = lane_of(rank, component == Component::Matmul ? Component::Collective : Component::Matmul);
  Overlap result;
  std::chrono::nanoseconds start{0}; // both lanes count as working from the run's start, even if they wait for a core
  const auto add = [&](std::chrono::nanoseconds end, double alone_us) {
    result.alone_us += alone_us;
    result.total_us += to_us(end - start);
    result.overlap_us += to_us(std::min(end, other.back().end) - start);
    start = end;
  };
  if (component == Component::Matmul && alone.local_us > 0) add(rank.local.end, alone.local_us);
  for (std::size_t i = 0; i < full_count && start < other.back().end; ++i) {
    add(lane[i].end, alone.block_us);
    ++result.count;
  }
  return result;
}

/// Time of blocks while the other lane works, divided by their time alone. Where blocks take less time than alone, the
/// other lane does a part of their work, and the ratio of the whole times counts; else only the shared time is slower.
double slowdown_of(const Overlap& seen) {
  if (seen.total_us > 0 && seen.total_us < seen.alone_us) return seen.total_us / seen.alone_us;
  if (!(seen.overlap_us > 0)) return 1;
  const double shared_work_us = seen.alone_us - (seen.total_us - seen.overlap_us);
  return std::min(seen.overlap_us / std::max(shared_work_us, seen.overlap_us / kMaxSlowdown), kMaxSlowdown);
}

std::optional<double> hand_over_us(const std::vector<StageTime>& lane) {
  if (lane.size() < 2) return std::nullopt;
  std::chrono::nanoseconds sum{0};
  for (std::size_t i = 1; i < lane.size(); ++i)
    sum += std::max(lane[i].start - lane[i - 1].end, std::chrono::nanoseconds(0));
  return to_us(sum) / static_cast<double>(lane.size() - 1);
}

} // namespace

BlockTime mean_block(const RunRecord& record, Component component, std::size_t full_count) {
  BlockTime slowest;
  for (const auto& rank : record.ranks) {
    const auto& lane = lane_of(rank, component);
    const double block_us = to_us(lane[full_count - 1].end - lane.front().start) / static_cast<double>(full_count);
    // block_count tells whether a rank has been compared yet; block_us does not, because a clock may give 0 for little
    // work.
    if (slowest.block_count == 0 || block_us > slowest.block_us)
      slowest = {block_us, rank.rank, static_cast<int>(full_count), slowest.local_us, hand_over_us(lane)};
    slowest.local_us = std::max(slowest.local_us, to_us(rank.local.end - rank.local.start));
  }
  return slowest;
}

std::chrono::nanoseconds start_time(const RunRecord& record, Component component) {
  std::chrono::nanoseconds longest{0};
  if (record.wall <= record.makespan) return longest;
  for (const RankTimes& rank : record.ranks) {
    const auto& lane = lane_of(rank, component);
    const bool has_local_part = component == Component::Matmul && rank.local.end > rank.local.start;
    longest = std::max(longest, lane.back().end - (has_local_part ? rank.local : lane.front()).start);
  }
  return std::max(record.wall - longest, std::chrono::nanoseconds(0));
}

BlockTime contended_block(const RunRecord& record, Component component, std::size_t full_count,
                          const BlockTime& alone) {
  BlockTime slowest;
  for (const auto& rank : record.ranks) {
    const Overlap seen = overlap_of(rank, component, full_count, alone);
    const double slowdown = slowdown_of(seen);
    if (slowest.block_count == 0 || slowdown * alone.block_us > slowest.block_us)
      slowest = {slowdown * alone.block_us, rank.rank, std::max(seen.count, 1), 0, std::nullopt};
  }
  return slowest;
}

} // namespace mc2::executor
