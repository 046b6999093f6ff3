#include "bench_active.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>
#include <utility>

#include "bench_support.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/profiler/active_sweep.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/statistics.hpp"
#include "mc2/profiler/sweep.hpp"
#include "numbers.hpp"
#include "render.hpp"
#include "simulated_machine.hpp"

namespace mc2::cli {
namespace {

using planner::Sample;
using profiler::ActiveCase;
using profiler::ActiveTarget;

constexpr std::array kCounts{7, 8, 9, 11, 13, 15, 19, 23, 27, 31, 39, 47, 63, 95, 127, 191};
constexpr double kMedianGoal = 0.02, kWorstGoal = 0.05;

/// The plan that samples lead to by the ordinary way: fit, then search; uncut while no model fits.
planner::Cut plan_of(const SimulatedMachine& machine, std::vector<Sample> samples) {
  const planner::Cut uncut{{planner::traits_of(machine.op().kind).cut_axis_length(machine.op())}};
  const auto fitted = profiler::fit_cost_model({machine.op(), machine.fingerprint(), std::move(samples)});
  if (!fitted) return uncut;
  const auto plan = planner::make_plan(machine.op(), fitted.value().model, machine.options());
  return plan ? plan.value().cut : uncut;
}

/// Regret of the plan after each number of measurements.
using Course = std::map<int, double>;

/// The sweep's cases for a length: both lanes, and both together where plausible plans lie (measure.cpp).
void add_cases(std::vector<ActiveCase>& cases, std::int64_t rows, std::int64_t length) {
  cases.push_back({ActiveTarget::Matmul, length});
  cases.push_back({ActiveTarget::Collective, length});
  if (length * 3 <= rows && length * 17 >= rows) cases.push_back({ActiveTarget::BothLanes, length});
}

std::vector<ActiveCase> grid_cases(const SimulatedMachine& machine) {
  std::vector<ActiveCase> cases;
  for (const auto length : profiler::sweep_block_rows(machine.op().m, machine.options().alignment))
    add_cases(cases, machine.op().m, length);
  return cases;
}

/// The grid from coarse to fine: the longest, the shortest, the middle, then the middles of what is left.
std::vector<ActiveCase> coarse_to_fine(const SimulatedMachine& machine) {
  const auto lengths = profiler::sweep_block_rows(machine.op().m, machine.options().alignment);
  std::vector<std::size_t> order{lengths.size() - 1, 0};
  std::vector<std::pair<std::size_t, std::size_t>> gaps{{0, lengths.size() - 1}};
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const auto [low, high] = gaps[i];
    if (high - low < 2) continue;
    const std::size_t middle = (low + high) / 2;
    order.push_back(middle);
    gaps.emplace_back(low, middle);
    gaps.emplace_back(middle, high);
  }
  std::vector<ActiveCase> cases;
  for (const std::size_t i : order) add_cases(cases, machine.op().m, lengths[i]);
  return cases;
}

/// Visits `cases` over and over, one round each time; `reorder` is called before each.
template <typename Reorder>
Course fixed_course(SimulatedMachine machine, std::vector<ActiveCase> cases, Reorder&& reorder) {
  Course course;
  std::vector<Sample> samples;
  int count = 0;
  for (int round = 0; count < kCounts.back(); ++round) {
    reorder(cases);
    for (const ActiveCase& one : cases) {
      for (const Sample& sample : machine.measure(one, round)) samples.push_back(sample);
      if (std::find(kCounts.begin(), kCounts.end(), ++count) != kCounts.end())
        course[count] = machine.regret(plan_of(machine, samples));
      if (count == kCounts.back()) break;
    }
  }
  return course;
}

/// What the active sweep stopped at stays its answer for every larger number.
struct ActiveCourse {
  Course course;
  int measurement_count = 0; ///< when it stopped of its own accord, or the largest
  double longest_decision_ms = 0;
};

Result<ActiveCourse> active_course(SimulatedMachine machine, std::uint64_t seed) {
  profiler::ActiveOptions options;
  options.question.op = machine.op();
  options.question.plan = machine.options();
  options.question.variant = "direct";
  options.question.sweep_alignment = machine.options().alignment;
  options.question.seed = seed;
  options.max_measurement_count = kCounts.back();
  options.warmup_count = 0;
  std::vector<Sample> samples;
  ActiveCourse result;
  int round = 0, count = 0;
  auto decided = std::chrono::steady_clock::now();
  profiler::ActiveHooks hooks;
  hooks.now = [] { return std::chrono::steady_clock::time_point{}; };
  hooks.make_case = [&](const ActiveCase& one) -> Result<profiler::SweepCase> {
    return profiler::SweepCase{one.text(), [&machine, &round, &samples, &count, &result, one] {
      auto measured = machine.measure(one, round);
      for (Sample sample : measured) {
        sample.round = round;
        samples.push_back(sample);
      }
      if (std::find(kCounts.begin(), kCounts.end(), ++count) != kCounts.end())
        result.course[count] = machine.regret(plan_of(machine, samples));
      return measured;
    }, {}};
  };
  hooks.is_cancelled = [&] {
    const std::chrono::duration<double, std::milli> waited = std::chrono::steady_clock::now() - decided;
    result.longest_decision_ms = std::max(result.longest_decision_ms, waited.count());
    return false;
  };
  hooks.on_progress = [&](const auto&) { decided = std::chrono::steady_clock::now(); };
  hooks.on_round = [&](const auto&) { ++round; };
  decided = std::chrono::steady_clock::now();
  auto summary = profiler::run_active_sweep(options, hooks, machine.fingerprint(), {});
  if (!summary) return summary.error();
  result.measurement_count = summary.value().measurement_count;
  const double last = machine.regret(plan_of(machine, summary.value().samples));
  for (const int at : kCounts)
    if (at > result.measurement_count) result.course[at] = last;
  return result;
}

struct Method {
  std::string name;
  std::vector<Course> courses;

  [[nodiscard]] double quantile_at(int count, double q) const {
    std::vector<double> regrets;
    for (const Course& course : courses) regrets.push_back(course.at(count));
    return profiler::quantile(regrets, q);
  }
  /// The fewest measurements from which on the goal holds; 0 when it never does.
  [[nodiscard]] int reached() const {
    int result = 0;
    for (auto count = kCounts.rbegin(); count != kCounts.rend(); ++count) {
      if (quantile_at(*count, 0.5) > kMedianGoal || quantile_at(*count, 1) > kWorstGoal) break;
      result = *count;
    }
    return result;
  }
};

void print(const std::vector<Method>& methods) {
  std::vector<std::vector<std::string>> rows{{"measurements"}};
  for (const Method& method : methods) rows.front().push_back(method.name + ": median / p95 / worst");
  for (const int count : kCounts) {
    rows.push_back({std::to_string(count)});
    for (const Method& method : methods)
      rows.back().push_back(percent_text(method.quantile_at(count, 0.5)) + " / " +
                            percent_text(method.quantile_at(count, 0.95)) + " / " +
                            percent_text(method.quantile_at(count, 1)));
  }
  std::cout << table(rows);
  for (const Method& method : methods) {
    const int count = method.reached();
    std::cout << "  " << method.name << ": median <= 2 % and worst <= 5 % "
              << (count > 0 ? "from " + std::to_string(count) + " measurements on" : "never") << "\n";
  }
}

Result<ExitCode> simulated(const ActiveBench& bench) {
  using Truth = SimulatedMachine::Truth;
  constexpr std::array kTruths{Truth::Affine, Truth::Bent, Truth::Staircase};
  std::vector<Method> methods{{"active", {}}, {"grid", {}}, {"coarse to fine", {}}, {"random", {}}};
  std::vector<double> stops, grid_sizes;
  double longest_ms = 0;
  for (int i = 0; i < bench.truth_count; ++i) {
    const std::uint64_t seed = bench.seed * 1'000'003 + static_cast<std::uint64_t>(i);
    const SimulatedMachine machine(kTruths[static_cast<std::size_t>(i) % kTruths.size()], seed);
    auto active = active_course(machine, seed);
    if (!active) return active.error();
    methods[0].courses.push_back(active.value().course);
    stops.push_back(active.value().measurement_count);
    longest_ms = std::max(longest_ms, active.value().longest_decision_ms);
    const auto in_order = [](std::vector<ActiveCase>&) {};
    std::mt19937_64 random(seed);
    const auto shuffled = [&random](std::vector<ActiveCase>& cases) { std::shuffle(cases.begin(), cases.end(), random); };
    methods[1].courses.push_back(fixed_course(machine, grid_cases(machine), in_order));
    methods[2].courses.push_back(fixed_course(machine, coarse_to_fine(machine), in_order));
    methods[3].courses.push_back(fixed_course(machine, grid_cases(machine), shuffled));
    grid_sizes.push_back(static_cast<double>(grid_cases(machine).size()));
  }
  std::cout << "Regret of the fitted model's plan against the exact best, " << bench.truth_count
            << " simulated machines (affine, bent, staircase; noise 1 to 5 %)\n";
  print(methods);
  std::cout << "  one round of the grid: " << profiler::quantile(grid_sizes, 0) << " to " << profiler::quantile(grid_sizes, 1)
            << " measurements; the default sweep takes at least 7 rounds\n  active stopped after a median of "
            << profiler::quantile(stops, 0.5) << " measurements (worst " << profiler::quantile(stops, 1)
            << "); longest decision " << time_text(longest_ms * 1000) << "\n";
  return ExitCode::Success;
}

// ---- measured: both profiles on this machine, and a race of everything ----

struct MeasuredShape {
  std::int64_t m, n, k;
  const char* link;
};
constexpr MeasuredShape kShapes[] = {{1024, 1024, 1024, "2.5Gbit,20us"}, {832, 768, 2048, "1Gbit,20us"},
                                     {1216, 1536, 768, "2.5Gbit,20us"}, {704, 1280, 1280, "1Gbit,20us"},
                                     {960, 896, 1536, "2.5Gbit,20us"}};

/// What one way of profiling led to.
struct Profiled {
  int measurement_count = 0;
  planner::Plan plan;
};

Result<Profiled> profile_and_plan(Workbench& bench, const ProfileSettings& settings) {
  ScratchStore scratch;
  auto store = scratch.open();
  if (!store) return store.error();
  const auto summary = profile_operator(bench, settings, store.value());
  if (!summary) return summary.error();
  const auto fitted = profiler::fit_cost_model({bench.op(), bench.fingerprint(), summary.value().samples});
  if (!fitted) return fitted.error();
  auto plan = planner::make_plan(bench.op(), fitted.value().model, settings.plan);
  if (!plan) return plan.error();
  return Profiled{profiler::measurement_count(summary.value().samples, bench.default_variant().text()),
                  std::move(plan).value()};
}

/// Median fused / serial of the two plans and of the fastest cut of the family, raced in one run.
Result<std::array<double, 3>> race_plans(Workbench& bench, const Profiled& active, const Profiled& grid,
                                         const planner::PlanOptions& options) {
  const auto cuts = planner::enumerate_cuts(bench.op(), options);
  if (!cuts) return cuts.error();
  std::vector<planner::Plan> plans;
  for (const auto& cut : cuts.value()) {
    plans.push_back(active.plan); // only cut and variant race
    plans.back().cut = cut;
  }
  const auto raced = race_heats(bench, std::move(plans), {active.plan.cut, grid.plan.cut});
  if (!raced) return raced.error();
  std::array<double, 3> ratios{0, 0, 1e300};
  for (const auto& contender : raced.value().contenders) {
    const double ratio = fused_to_serial(contender);
    if (contender.cut == active.plan.cut) ratios[0] = ratio;
    if (contender.cut == grid.plan.cut) ratios[1] = ratio;
    ratios[2] = std::min(ratios[2], ratio);
  }
  return ratios;
}

Result<ExitCode> measured() {
  std::vector<std::vector<std::string>> rows{{"shape", "link", "active: measurements", "plan", "regret",
                                              "sweep: measurements", "plan", "regret", "share"}};
  for (const auto& shape : kShapes) {
    auto bench = open_bench(bench_op(shape.m, shape.n, shape.k), shape.link);
    if (!bench) return bench.error();
    ProfileSettings settings = bench_settings(1).profile;
    settings.plan = bench_settings(1).plan;
    const auto grid = profile_and_plan(*bench.value(), settings);
    if (!grid) return grid.error();
    settings.active = ActiveSettings{};
    const auto active = profile_and_plan(*bench.value(), settings);
    if (!active) return active.error();
    const auto ratios = race_plans(*bench.value(), active.value(), grid.value(), settings.plan);
    if (!ratios) return ratios.error();
    const auto& [active_ratio, grid_ratio, best_ratio] = ratios.value();
    const int active_count = active.value().measurement_count, grid_count = grid.value().measurement_count;
    rows.push_back({bench.value()->op().text(), shape.link, std::to_string(active_count), active.value().plan.cut.text(),
                    percent_text(active_ratio / best_ratio - 1), std::to_string(grid_count),
                    grid.value().plan.cut.text(), percent_text(grid_ratio / best_ratio - 1),
                    percent_text(static_cast<double>(active_count) / grid_count)});
  }
  std::cout << "Active profile against the default sweep on this machine; regret to the fastest cut of the family, raced\n"
            << table(rows) << "\n";
  return ExitCode::Success;
}

} // namespace

void ActiveBench::add_to(CLI::App& app) {
  app.add_option("--truths", truth_count, "simulated machines")->capture_default_str()->check(whole_number(1, 10'000));
  app.add_option("--seed", seed, "of the simulated machines")->capture_default_str()->check(whole_number(0, kMaxSeed));
  app.add_flag("--measured", is_measured, "profile and race on this machine instead, about 5 minutes");
}

Result<ExitCode> ActiveBench::run() const { return is_measured ? measured() : simulated(*this); }

} // namespace mc2::cli
