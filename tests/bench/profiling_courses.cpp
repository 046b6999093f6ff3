#include "profiling_courses.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "mc2/planner/planner.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/tune.hpp"

namespace mc2::cli {
namespace {

using planner::Sample;
using profiler::CaseTarget;
using profiler::ProfileCase;

constexpr int kMostMeasurements = kMeasurementCounts.back();

bool is_judged(int count) {
  return std::find(kMeasurementCounts.begin(), kMeasurementCounts.end(), count) != kMeasurementCounts.end();
}

/// Regret of the plan that mc2 makes from the samples by fit and search; of uncut while the samples cannot be fitted.
double regret_of(const SimulatedMachine& machine, std::vector<Sample> samples) {
  const planner::Cut uncut = planner::uncut(machine.op());
  const auto fitted = profiler::fit_cost_model({machine.op(), machine.fingerprint(), std::move(samples)});
  if (!fitted) return machine.regret(uncut);
  const auto plan = planner::make_plan(machine.op(), fitted.value().model, machine.options());
  return machine.regret(plan ? plan.value().cut : uncut);
}

/// Collects measurements and judges the plan after each of kMeasurementCounts.
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

std::vector<ProfileCase> grid_cases(const SimulatedMachine& machine) {
  return profiler::grid_cases(machine.op().m, machine.options().alignment);
}

/// The bench through which profiling sees the machine. Passes every measurement to a Judge.
class SimulatedBench final : public profiler::Bench {
 public:
  explicit SimulatedBench(const SimulatedMachine& machine)
      : Bench({machine.op(), machine.fingerprint(), {{"direct", {}}}, false}), machine_(machine), judge_(machine_) {}

  [[nodiscard]] Result<std::size_t> prepare(const planner::Plan& /*plan*/) override { return std::size_t{0}; }
  [[nodiscard]] Result<void> verify(const planner::Plan& /*plan*/) override { return {}; }
  [[nodiscard]] double time_us(std::size_t /*prepared*/, profiler::RunPart /*part*/) override { return 1; }
  [[nodiscard]] Result<profiler::Measure> prepare_case(const ProfileCase& one, const planner::Variant&) override {
    return profiler::Measure([this, one] {
      auto measured = machine_.measure(one, round_of(one));
      judge_.add(measured);
      return measured;
    });
  }
  [[nodiscard]] std::chrono::steady_clock::time_point now() override { return {}; }
  [[nodiscard]] const Judge& judge() const noexcept { return judge_; }

 private:
  /// The round of this visit. A new round begins when a case is visited that the current round has visited already.
  int round_of(const ProfileCase& one) {
    if (!visited_.insert(one).second) {
      ++round_;
      visited_ = {one};
    }
    return round_;
  }

  SimulatedMachine machine_;
  Judge judge_;
  std::set<ProfileCase> visited_;
  int round_ = 0;
};

} // namespace

Result<Course> profile_course(const SimulatedMachine& machine) {
  SimulatedBench bench(machine);
  profiler::ProfileSettings settings;
  settings.plan = machine.options();
  settings.max_measurement_count = kMostMeasurements;
  settings.sweep.warmup_rounds = 0;
  profiler::Keeper keeper;
  MC2_ASSIGN(const auto summary, profiler::profile(bench, settings, keeper));
  Course course = bench.judge().course();
  const double last = regret_of(machine, summary.samples);
  for (const int count : kMeasurementCounts)
    if (count > summary.measurement_count) course[count] = last;
  return course;
}

Course grid_course(SimulatedMachine machine, GridOrder order, std::mt19937_64& random) {
  auto cases = grid_cases(machine);
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

int grid_size(const SimulatedMachine& machine) { return static_cast<int>(grid_cases(machine).size()); }

} // namespace mc2::cli
