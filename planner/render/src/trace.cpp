#include "mc2/render/trace.hpp"

#include <nlohmann/json.hpp>

namespace mc2::render {
namespace {

using nlohmann::ordered_json;

constexpr int kPredictedProcess = 0;
constexpr int kComputeThread = 1, kCommunicationThread = 2;

/// Writes events as the Trace Event Format document describes them.
class TraceWriter {
 public:
  /// @param work  the work of the compute lane
  /// @param unit  the unit of block lengths, "rows" or "columns"
  TraceWriter(planner::Work work, std::string_view unit) : work_(to_string(work)), unit_(unit) {}

  void name_process(int process, const std::string& name) {
    events_.push_back({{"ph", "M"}, {"pid", process}, {"name", "process_name"}, {"args", {{"name", name}}}});
    events_.push_back(
        {{"ph", "M"}, {"pid", process}, {"name", "process_sort_index"}, {"args", {{"sort_index", process}}}});
    name_thread(process, kComputeThread, "compute lane");
    name_thread(process, kCommunicationThread, "communication lane");
  }
  void add_block(int process, int thread, std::size_t block, std::int64_t length, double start_us, double end_us) {
    events_.push_back({{"ph", "X"},
                       {"pid", process},
                       {"tid", thread},
                       {"name", (thread == kComputeThread ? work_ + " " : "collective ") + std::to_string(block + 1)},
                       {"cat", thread == kComputeThread ? "compute" : "communication"},
                       {"ts", start_us},
                       {"dur", end_us - start_us},
                       {"args", {{unit_, length}}}});
  }
  /// Adds the part of the matmul that needs no other rank, of the rank's own shard.
  void add_local(int process, std::int64_t rows, double start_us, double end_us) {
    add_block(process, kComputeThread, 0, rows, start_us, end_us);
    events_.back()["name"] = work_ + " of the own shard";
  }
  [[nodiscard]] std::string text(ordered_json about) const {
    return ordered_json{{"displayTimeUnit", "ms"}, {"otherData", std::move(about)}, {"traceEvents", events_}}.dump(
               1, ' ', false, ordered_json::error_handler_t::replace) +
           "\n";
  }

 private:
  void name_thread(int process, int thread, const char* name) {
    events_.push_back(
        {{"ph", "M"}, {"pid", process}, {"tid", thread}, {"name", "thread_name"}, {"args", {{"name", name}}}});
  }
  std::string work_;
  std::string unit_;
  ordered_json events_ = ordered_json::array();
};

std::int64_t shard_rows(const planner::OpSpec& op) { return planner::traits_of(op.kind).cut_axis_length(op); }

void add_predicted(TraceWriter& trace, const planner::Plan& plan) {
  if (!plan.has_timeline()) return;
  trace.name_process(kPredictedProcess, "predicted");
  const bool compute_first = planner::traits_of(plan.op.kind).first_lane == planner::Lane::Compute;
  const auto& compute = compute_first ? plan.timeline.first : plan.timeline.second;
  const auto& communication = compute_first ? plan.timeline.second : plan.timeline.first;
  const bool is_local_first = plan.schedule == planner::Schedule::LocalFirst;
  const std::size_t local = is_local_first ? 1 : 0; // the own shard is block 0 of the timeline
  if (is_local_first) trace.add_local(kPredictedProcess, shard_rows(plan.op), compute[0].start_us, compute[0].end_us);
  for (std::size_t i = 0; i < plan.cut.block_rows.size(); ++i) {
    const std::int64_t rows = plan.cut.block_rows[i];
    trace.add_block(kPredictedProcess, kComputeThread, i, rows, compute[local + i].start_us, compute[local + i].end_us);
    trace.add_block(kPredictedProcess, kCommunicationThread, i, rows, communication[local + i].start_us,
                    communication[local + i].end_us);
  }
}

void add_measured(TraceWriter& trace, const planner::Plan& plan, const MeasuredLanes& rank) {
  const int process = rank.rank + 1;
  trace.name_process(process, "measured rank " + std::to_string(rank.rank));
  if (rank.local) trace.add_local(process, shard_rows(plan.op), rank.local->start_us, rank.local->end_us);
  const auto add = [&](int thread, const std::vector<planner::Span>& blocks) {
    for (std::size_t i = 0; i < plan.cut.block_rows.size(); ++i)
      trace.add_block(process, thread, i, plan.cut.block_rows[i], blocks[i].start_us, blocks[i].end_us);
  };
  add(kComputeThread, rank.compute);
  add(kCommunicationThread, rank.communication);
}

} // namespace

std::string chrome_trace(const planner::Plan& plan, std::span<const MeasuredLanes> ranks,
                         const planner::Fingerprint& here) {
  TraceWriter trace(planner::traits_of(plan.op.kind).work, to_string(planner::cut_axis(plan.op)));
  add_predicted(trace, plan);
  for (const auto& rank : ranks) add_measured(trace, plan, rank);
  return trace.text({{"operator", plan.op.text()}, {"cut", plan.cut.text()}, {"machine", here.label()}});
}

} // namespace mc2::render
