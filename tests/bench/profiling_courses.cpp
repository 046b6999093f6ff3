#include "profiling_courses.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "mc2/planner/planner.hpp"
#include "mc2/profiler/active_sweep.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/sweep.hpp"

namespace mc2::cli {
namespace {

using planner::Sample;
using profiler::ActiveCase;
using profiler::ActiveTarget;

constexpr int kMostMeasurements = kMeasurementCounts.back();

bool is_judged(int count) {
  return std::find(kMeasurementCounts.begin(), kMeasurementCounts.end(), count) != kMeasurementCounts.end();
}

/// Regret of the plan that samples lead to by the ordinary way: fit, then search; uncut while no model fits.
double regret_of(const SimulatedMachine& machine, std::vector<Sample> samples) {
  const planner::Cut uncut = planner::uncut(machine.op());
  const auto fitted = profiler::fit_cost_model({machine.op(), machine.fingerprint(), std::move(samples)});
  if (!fitted) return machine.regret(uncut);
  const auto plan = planner::make_plan(machine.op(), fitted.value().model, machine.options());
  return machine.regret(plan ? plan.value().cut : uncut);
}

/// Collects measurements and judges the plan whenever it should be.
class Judge {
 public:
  explicit Judge(const SimulatedMachine& machine) : machine_(machine) {}

  void add(const std::vector<Sample>& measured) {
    samples_.insert(samples_.end(), measured.begin(), measured.end());
    if (is_judged(++count_)) course_[count_] = regret_of(machine_, samples_);
  }
  [[nodiscard]] bool is_done() const noexcept { return count_ >= kMostMeasurements; }
  [[nodiscard]] const Course& course() const noexcept { return course_; }

 private:
  const SimulatedMachine& machine_;
  std::vector<Sample> samples_;
  int count_ = 0;
  Course course_;
};

/// The sweep's cases for a length: both lanes, and both together where plausible plans lie (measure.cpp).
void add_cases(std::vector<ActiveCase>& cases, std::int64_t rows, std::int64_t length) {
  cases.push_back({ActiveTarget::Matmul, length});
  cases.push_back({ActiveTarget::Collective, length});
  if (length * 3 <= rows && length * 17 >= rows) cases.push_back({ActiveTarget::BothLanes, length});
}

/// Halves the longest stretch that is left, breadth first.
std::vector<std::int64_t> coarse_to_fine(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> order{lengths.back(), lengths.front()};
  std::vector<std::pair<std::size_t, std::size_t>> gaps{{0, lengths.size() - 1}};
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const auto [low, high] = gaps[i];
    if (high - low < 2) continue;
    const std::size_t middle = (low + high) / 2;
    order.push_back(lengths[middle]);
    gaps.emplace_back(low, middle);
    gaps.emplace_back(middle, high);
  }
  return order;
}

std::vector<ActiveCase> grid_cases(const SimulatedMachine& machine, GridOrder order) {
  auto lengths = profiler::sweep_block_rows(machine.op().m, machine.options().alignment);
  if (order == GridOrder::CoarseToFine) lengths = coarse_to_fine(lengths);
  std::vector<ActiveCase> cases;
  for (const auto length : lengths) add_cases(cases, machine.op().m, length);
  return cases;
}

profiler::ActiveOptions active_options(const SimulatedMachine& machine, std::uint64_t seed) {
  profiler::ActiveOptions options;
  options.question.op = machine.op();
  options.question.plan = machine.options();
  options.question.variant = "direct";
  options.question.sweep_alignment = machine.options().alignment;
  options.question.seed = seed;
  options.max_measurement_count = kMostMeasurements;
  options.warmup_count = 0;
  return options;
}

} // namespace

Result<ActiveCourse> active_course(SimulatedMachine machine, std::uint64_t seed) {
  using Clock = std::chrono::steady_clock;
  Judge judge(machine);
  ActiveCourse result;
  int round = 0;
  profiler::ActiveHooks hooks;
  hooks.now = [] { return Clock::time_point{}; };
  hooks.make_case = [&](const ActiveCase& one) -> Result<profiler::SweepCase> {
    return profiler::SweepCase{one.text(planner::cut_axis(machine.op())),
                               [&machine, &round, &judge, one] {
                                 auto measured = machine.measure(one, round);
                                 judge.add(measured);
                                 return measured;
                               },
                               {}};
  };
  auto last_step = Clock::now();
  hooks.is_cancelled = [&] {
    const std::chrono::duration<double, std::milli> waited = Clock::now() - last_step;
    result.longest_decision_ms = std::max(result.longest_decision_ms, waited.count());
    return false;
  };
  hooks.on_progress = [&](const auto&) { last_step = Clock::now(); };
  hooks.on_round = [&](const auto&) { ++round; };
  MC2_ASSIGN(auto summary, profiler::run_active_sweep(active_options(machine, seed), hooks, machine.fingerprint(), {}));
  result.measurement_count = summary.measurement_count;
  result.course = judge.course();
  const double last = regret_of(machine, summary.samples);
  for (const int count : kMeasurementCounts)
    if (count > result.measurement_count) result.course[count] = last;
  return result;
}

Course grid_course(SimulatedMachine machine, GridOrder order, std::mt19937_64& random) {
  auto cases = grid_cases(machine, order);
  Judge judge(machine);
  for (int round = 0; !judge.is_done(); ++round) {
    if (order == GridOrder::Random) std::shuffle(cases.begin(), cases.end(), random);
    for (std::size_t i = 0; i < cases.size() && !judge.is_done(); ++i) judge.add(machine.measure(cases[i], round));
  }
  return judge.course();
}

Course brute_force_course(SimulatedMachine machine, std::mt19937_64& random) {
  auto cuts = planner::enumerate_cuts(machine.op(), machine.options()).value();
  std::shuffle(cuts.begin() + 1, cuts.end(), random); // uncut stands first
  std::vector<double> sums_us(cuts.size(), 0);
  Course course;
  for (int count = 1; count <= kMostMeasurements; ++count) {
    const std::size_t run = static_cast<std::size_t>(count) - 1;
    sums_us[run % cuts.size()] += machine.measure_cut_us(cuts[run % cuts.size()]);
    if (!is_judged(count)) continue;
    const auto mean_us = [&](std::size_t i) { return sums_us[i] / static_cast<double>((run - i) / cuts.size() + 1); };
    std::size_t best = 0;
    for (std::size_t i = 1; i < std::min(run + 1, cuts.size()); ++i)
      if (mean_us(i) < mean_us(best)) best = i;
    course[count] = machine.regret(cuts[best]);
  }
  return course;
}

int grid_size(const SimulatedMachine& machine) {
  return static_cast<int>(grid_cases(machine, GridOrder::Sweep).size());
}

} // namespace mc2::cli
