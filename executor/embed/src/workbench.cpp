#include "mc2/embed/workbench.hpp"

#include <algorithm>

#include "mc2/executor/block_times.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::embed {
namespace {

using executor::BlockTime;
using executor::RunMode;
using planner::Component;
using planner::Sample;
using profiler::CaseTarget;

RunMode mode_of(profiler::RunPart part) {
  using profiler::RunPart;
  switch (part) {
    case RunPart::Fused: return RunMode::Fused;
    case RunPart::Serial: return RunMode::Serial;
    case RunPart::SerialCompute: return RunMode::SerialCompute;
    case RunPart::Compute: return RunMode::ComputeOnly;
    case RunPart::Communication: return RunMode::CommunicationOnly;
  }
  MC2_CHECK(false, "a part of a run that there is not");
  return RunMode::Fused;
}

/// How many blocks of full length a lane has in one run of a case.
std::size_t full_count(const planner::OpSpec& op, std::int64_t block_rows) {
  return static_cast<std::size_t>(planner::cut_axis_length(op) / block_rows);
}

} // namespace

std::string key_of(const planner::Variant& variant, const planner::Cut& cut, planner::Schedule schedule) {
  return variant.text() + ": " + cut.text() + ", " + std::string(to_string(schedule));
}

/// One case of a sweep: runs a prepared plan and makes samples of its record.
struct PreparedBench::CaseRun {
  PreparedBench& bench;
  executor::Prepared& prepared;
  profiler::ProfileCase one;
  planner::Variant variant;

  [[nodiscard]] Sample sample(Component component, const BlockTime& time, double block_us) const {
    Sample sample = profiler::sample_of(bench.op(), one, variant, component, block_us);
    sample.block_count = time.block_count;
    sample.slowest_rank = time.rank;
    return sample;
  }

  [[nodiscard]] const executor::RunRecord& run_alone(Component component) const {
    return prepared.run(component == Component::Matmul ? RunMode::ComputeOnly : RunMode::CommunicationOnly);
  }

  [[nodiscard]] BlockTime time_alone(Component component) const {
    return executor::mean_block(run_alone(component), component, full_count(bench.op(), one.block_rows));
  }

  /// The time of a block and one hand-over to the next. The mean over N blocks holds N - 1 hand-overs, so one is added.
  /// A run of a single block has none to measure and takes the last one of the variant and lane; without it the longest
  /// block of a small operator would seem faster than shorter ones.
  [[nodiscard]] double with_hand_over_us(Component component, const BlockTime& time) const {
    double& hand_over_us = bench.hand_over_us_[{variant.text(), component}];
    hand_over_us = time.hand_over_us.value_or(hand_over_us);
    return time.block_us + hand_over_us / time.block_count;
  }

  [[nodiscard]] std::vector<Sample> measure_alone(Component component) const {
    const executor::RunRecord& record = run_alone(component);
    const BlockTime time = executor::mean_block(record, component, full_count(bench.op(), one.block_rows));
    Sample alone = sample(component, time, with_hand_over_us(component, time));
    alone.start = executor::start_time(record, component);
    return {alone};
  }

  /// Times each lane alone, and directly afterwards both together.
  [[nodiscard]] std::vector<Sample> measure_together() const {
    const BlockTime matmul = time_alone(Component::Matmul);
    const BlockTime collective = time_alone(Component::Collective);
    const executor::RunRecord& record = prepared.run(RunMode::Independent);
    const auto contended = [&](Component component, const BlockTime& alone) {
      const BlockTime time =
          executor::contended_block(record, component, full_count(bench.op(), one.block_rows), alone);
      return sample(component, time, time.block_us);
    };
    return {contended(Component::Matmul, matmul), contended(Component::Collective, collective)};
  }

  [[nodiscard]] std::vector<Sample> measure() const {
    if (one.target == CaseTarget::BothLanes) return measure_together();
    return measure_alone(one.target == CaseTarget::Matmul ? Component::Matmul : Component::Collective);
  }
};

PreparedBench::PreparedBench(profiler::BenchFacts facts, executor::Communicator& communicator)
    : Bench(std::move(facts)), communicator_(communicator) {}

PreparedBench::~PreparedBench() = default;

void PreparedBench::clear() noexcept {
  numbers_.clear();
  slots_.clear();
}

void PreparedBench::release(const planner::Variant& variant) {
  for (auto& slot : slots_)
    if (slot.variant == variant) slot.prepared.reset();
  std::erase_if(numbers_, [&](const auto& entry) { return slots_[entry.second].prepared == nullptr; });
}

void PreparedBench::forget(const planner::Cut& cut, const planner::Variant& variant) {
  const auto found = numbers_.find(key_of(variant, cut, planner::overlapping_schedule(op(), variant, cut)));
  if (found == numbers_.end()) return;
  slots_[found->second].prepared.reset();
  numbers_.erase(found);
}

bool PreparedBench::is_ready(const planner::Cut& cut, const planner::Variant& variant) const {
  return numbers_.contains(key_of(variant, cut, planner::overlapping_schedule(op(), variant, cut)));
}

Result<std::size_t> PreparedBench::prepare(const planner::Plan& plan) {
  if (plan.op != op())
    return Error{ErrorCode::InvalidSpec, "plan", "is of " + plan.op.text() + ", not of " + op().text()};
  const std::string key = key_of(plan.variant, plan.cut, plan.schedule);
  if (const auto found = numbers_.find(key); found != numbers_.end()) return found->second;
  // The caller has decided already whether a plan of another machine may run here.
  const executor::ExecuteOptions options{.accept_other_fingerprint = true, .prepare = {.allow_independent = true}};
  MC2_ASSIGN(auto prepared, executor::prepare(plan, buffers(), communicator_, options));
  slots_.push_back({plan.variant, std::move(prepared)});
  numbers_.emplace(key, slots_.size() - 1);
  return slots_.size() - 1;
}

Result<executor::Prepared*> PreparedBench::ready(const planner::Plan& plan) {
  MC2_ASSIGN(const auto number, prepare(plan));
  return slots_[number].prepared.get();
}

Result<executor::Prepared*> PreparedBench::ready(const planner::Cut& cut, const planner::Variant& variant) {
  MC2_ASSIGN(const auto plan, planner::unpredicted_plan(op(), fingerprint(), variant, cut));
  return ready(plan);
}

double PreparedBench::time_us(std::size_t prepared, profiler::RunPart part) {
  const bool is_known = prepared < slots_.size() && slots_[prepared].prepared != nullptr;
  MC2_CHECK(is_known, "a plan is timed that was not prepared");
  return planner::to_us(slots_[prepared].prepared->run(mode_of(part), executor::RunDetail::Makespan).wall);
}

Result<profiler::Measure> PreparedBench::prepare_case(const profiler::ProfileCase& one,
                                                      const planner::Variant& variant) {
  MC2_ASSIGN(auto prepared, ready(planner::equal_blocks(op(), one.block_rows), variant));
  return profiler::Measure([run = CaseRun{*this, *prepared, one, variant}] { return run.measure(); });
}

Result<void> check_holds_every_rank(const executor::Communicator& communicator) {
  if (communicator.local_ranks().size() == static_cast<std::size_t>(communicator.world_size())) return {};
  return Error{ErrorCode::Unsupported, "communicator",
               "holds one rank of several processes; measure on one that holds every rank, or by mpirun mc2 tune"};
}

Result<profiler::BenchFacts> bench_facts(const executor::Communicator& communicator, const executor::Backend& backend,
                                         const executor::CommunicatorOptions& options, const planner::OpSpec& op,
                                         std::vector<planner::Variant> variants) {
  MC2_TRY(op.validate());
  MC2_TRY(backend.takes(op, options));
  if (op.world_size != communicator.world_size())
    return Error{
        ErrorCode::InvalidSpec, "ranks",
        std::to_string(op.world_size) + ", but the communicator has " + std::to_string(communicator.world_size())};
  if (variants.empty()) variants = backend.variants(op, options);
  return profiler::BenchFacts{op, communicator.fingerprint(), std::move(variants), backend.variants_share_matmul()};
}

Result<executor::Verification> check_run(const planner::OpSpec& op, executor::ResidentProblem& problem,
                                         executor::Prepared& prepared, const planner::Cut& cut, std::uint64_t seed,
                                         bool is_virtual) {
  problem.refill_a(seed);
  problem.poison();
  prepared.run(RunMode::Fused);
  problem.fetch_results();
  const auto matrices = problem.host().buffers();
  if (is_virtual) return executor::verify_exchange(op, prepared.intermediates(), matrices, cut);
  return executor::verify_result(op, matrices, cut, seed);
}

Workbench::Workbench(profiler::BenchFacts facts, executor::Communicator& communicator, bool is_virtual,
                     const Workload& workload)
    : PreparedBench(std::move(facts), communicator),
      is_virtual_(is_virtual),
      seed_(workload.seed),
      problem_(op(), workload.seed, communicator, {.counts = workload.counts}) {}

Workbench::~Workbench() { clear(); }

Result<std::unique_ptr<Workbench>> Workbench::open(const executor::Backend& backend,
                                                   const executor::CommunicatorOptions& options,
                                                   const planner::OpSpec& op, const Workload& workload,
                                                   std::vector<planner::Variant> variants) {
  MC2_TRY(backend.supports(op));
  MC2_ASSIGN(auto communicator, backend.open(options));
  auto bench = on(*communicator, backend, options, op, workload, std::move(variants));
  if (bench) bench.value()->own_ = std::move(communicator);
  return bench;
}

Result<std::unique_ptr<Workbench>> Workbench::on(executor::Communicator& communicator, const executor::Backend& backend,
                                                 const executor::CommunicatorOptions& options,
                                                 const planner::OpSpec& op, const Workload& workload,
                                                 std::vector<planner::Variant> variants) {
  MC2_TRY(backend.supports(op));
  MC2_ASSIGN(auto facts, bench_facts(communicator, backend, options, op, std::move(variants)));
  MC2_TRY(check_holds_every_rank(communicator));
  return std::unique_ptr<Workbench>(
      new Workbench(std::move(facts), communicator, options.virtual_compute.has_value(), workload));
}

Result<executor::Verification> Workbench::check(const planner::Plan& plan) {
  MC2_ASSIGN(auto prepared, ready(plan));
  return check_run(op(), problem_, *prepared, plan.cut, ++seed_, is_virtual_);
}

Result<void> Workbench::verify(const planner::Plan& plan) {
  MC2_TRY(check(plan));
  return {};
}

} // namespace mc2::embed
