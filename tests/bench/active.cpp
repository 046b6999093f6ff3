#include "active.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <optional>
#include <random>
#include <utility>

#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/active_sweep.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/statistics.hpp"
#include "options/numbers.hpp"
#include "pages/image_file.hpp"
#include "pages/render.hpp"
#include "profiling_courses.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

// ---- simulated: machines whose best plan is known ----

/// What all simulated machines showed.
struct Simulation {
  std::vector<Method> methods{
      {"active", {}}, {"grid", {}}, {"coarse to fine", {}}, {"random", {}}, {"brute force", {}}};
  std::vector<double> stops, grid_sizes; ///< measurements: until active stopped, in one round of the grid
  double longest_ms = 0;                 ///< of all decisions

  Result<void> add(const SimulatedMachine& machine, std::uint64_t seed);
};

Result<void> Simulation::add(const SimulatedMachine& machine, std::uint64_t seed) {
  MC2_ASSIGN(auto active, active_course(machine, seed));
  stops.push_back(active.measurement_count);
  longest_ms = std::max(longest_ms, active.longest_decision_ms);
  grid_sizes.push_back(grid_size(machine));
  std::mt19937_64 random(seed);
  methods[0].courses.push_back(std::move(active.course));
  methods[1].courses.push_back(grid_course(machine, GridOrder::Sweep, random));
  methods[2].courses.push_back(grid_course(machine, GridOrder::CoarseToFine, random));
  methods[3].courses.push_back(grid_course(machine, GridOrder::Random, random));
  methods[4].courses.push_back(brute_force_course(machine, random));
  return {};
}

void print(const Simulation& result) {
  const auto count_text = [](const std::vector<double>& values, double q) {
    return std::to_string(std::lround(profiler::quantile(values, q)));
  };
  std::cout << "Regret of the plan against the exact best, " << result.stops.size()
            << " simulated machines (affine, bent, staircase; noise 1 to 5 %)\n"
            << quality_table(result.methods) << "  one round of the grid: " << count_text(result.grid_sizes, 0)
            << " to " << count_text(result.grid_sizes, 1)
            << " measurements; the default sweep takes at least 7 rounds\n"
            << "  active stopped after a median of " << count_text(result.stops, 0.5) << " measurements (worst "
            << count_text(result.stops, 1) << "); longest decision " << time_text(result.longest_ms * 1000) << "\n";
}

Result<ExitCode> simulated(const ActiveBench& bench) {
  using Truth = SimulatedMachine::Truth;
  constexpr std::array kTruths{Truth::Affine, Truth::Bent, Truth::Staircase};
  std::optional<ImageFile> chart;
  if (bench.chart_file) {
    MC2_ASSIGN(chart, ImageFile::open(*bench.chart_file, "--chart"));
  }
  Simulation result;
  for (int i = 0; i < bench.truth_count; ++i) {
    const std::uint64_t seed = bench.seed * 1'000'003 + static_cast<std::uint64_t>(i);
    const SimulatedMachine machine(kTruths[static_cast<std::size_t>(i) % kTruths.size()], seed);
    MC2_TRY(result.add(machine, seed));
  }
  print(result);
  if (chart) chart->write(quality_chart(result.methods));
  return ExitCode::Success;
}

// ---- measured: both profiles on this machine, and a race of everything ----

struct MeasuredShape {
  std::int64_t m, n, k;
  const char* link;
};
constexpr MeasuredShape kShapes[] = {{1024, 1024, 1024, "2.5Gbit,20us"},
                                     {832, 768, 2048, "1Gbit,20us"},
                                     {1216, 1536, 768, "2.5Gbit,20us"},
                                     {704, 1280, 1280, "1Gbit,20us"},
                                     {960, 896, 1536, "2.5Gbit,20us"}};

/// What one way of profiling led to.
struct Profiled {
  int measurement_count = 0;
  planner::Plan plan;
};

Result<Profiled> profile_and_plan(Workbench& bench, const ProfileSettings& settings) {
  ScratchStore scratch;
  MC2_ASSIGN(auto store, scratch.open());
  MC2_ASSIGN(const auto summary, profile_operator(bench, settings, store));
  MC2_ASSIGN(const auto fitted, profiler::fit_cost_model({bench.op(), bench.fingerprint(), summary.samples}));
  MC2_ASSIGN(auto plan, planner::make_plan(bench.op(), fitted.model, settings.plan));
  return Profiled{profiler::measurement_count(summary.samples, bench.default_variant().text()), std::move(plan)};
}

Result<ExitCode> measured() {
  std::vector<std::vector<std::string>> rows{
      {"shape", "link", "active: measurements", "plan", "regret", "sweep: measurements", "plan", "regret", "share"}};
  for (const auto& shape : kShapes) {
    MC2_ASSIGN(auto bench, open_bench(bench_op(shape.m, shape.n, shape.k), shape.link));
    ProfileSettings settings = bench_settings(1).profile;
    settings.plan = bench_settings(1).plan;
    MC2_ASSIGN(const auto grid, profile_and_plan(*bench, settings));
    // What the aim allows; it stops on its own when it is sure enough.
    settings.active = ActiveSettings{.max_measurement_count = grid.measurement_count / 3};
    MC2_ASSIGN(const auto active, profile_and_plan(*bench, settings));
    const planner::Cut &active_cut = active.plan.cut, &grid_cut = grid.plan.cut;
    MC2_ASSIGN(const auto raced, race_family(*bench, settings.plan, active.plan.variant, {active_cut, grid_cut}));
    const int active_count = active.measurement_count, grid_count = grid.measurement_count;
    rows.push_back({bench->op().text(), shape.link, std::to_string(active_count), active_cut.text(),
                    percent_text(raced.regret_of(active_cut)), std::to_string(grid_count), grid_cut.text(),
                    percent_text(raced.regret_of(grid_cut)),
                    percent_text(static_cast<double>(active_count) / grid_count)});
  }
  std::cout
      << "Active profile against the default sweep on this machine; regret to the fastest cut of the family, raced\n"
      << render::table(rows, render::kAnyWidth) << "\n";
  return ExitCode::Success;
}

} // namespace

void ActiveBench::add_to(CLI::App& app) {
  app.add_option("--truths", truth_count, "simulated machines")->capture_default_str()->check(whole_number(1, 10'000));
  app.add_option("--seed", seed, "of the simulated machines")->capture_default_str()->check(whole_number(0, kMaxSeed));
  auto* chart = app.add_option("--chart", chart_file, "also draw median and worst regret into this .svg or .png file");
  app.add_flag("--measured", is_measured, "profile and race on this machine instead, about 5 minutes")->excludes(chart);
}

Result<ExitCode> ActiveBench::run() const { return is_measured ? measured() : simulated(*this); }

} // namespace mc2::cli
