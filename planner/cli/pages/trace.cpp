#include "pages/trace.hpp"

#include "mc2/planner/units.hpp"

namespace mc2::cli {

render::MeasuredLanes measured_lanes(const planner::OpSpec& op, const executor::RankTimes& rank) {
  const auto to_span = [](const auto& times) {
    return planner::Span{planner::to_us(times.start), planner::to_us(times.end)};
  };
  render::MeasuredLanes lanes{.rank = rank.rank, .local = {}, .compute = {}, .communication = {}};
  if (planner::traits_of(op.kind).has_local_part) lanes.local = to_span(rank.local);
  for (const auto& times : rank.compute) lanes.compute.push_back(to_span(times));
  for (const auto& times : rank.communication) lanes.communication.push_back(to_span(times));
  return lanes;
}

std::string chrome_trace(const planner::Plan& plan, const executor::RunRecord& record,
                         const planner::Fingerprint& here) {
  std::vector<render::MeasuredLanes> ranks;
  for (const auto& rank : record.ranks) ranks.push_back(measured_lanes(plan.op, rank));
  return render::chrome_trace(plan, ranks, here);
}

} // namespace mc2::cli
