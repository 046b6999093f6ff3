#include "profiling.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <iostream>
#include <random>
#include <utility>

#include "mc2/profiler/statistics.hpp"
#include "options/numbers.hpp"
#include "pages/image_file.hpp"
#include "profiling_courses.hpp"

namespace mc2::cli {
namespace {

/// The results on all simulated machines.
struct Simulation {
  std::vector<Method> methods{{"profile", {}}, {"grid alone", {}}, {"grid at random", {}}, {"brute force", {}}};
  std::vector<double> grid_sizes; ///< measurements in one round of the grid

  Result<void> add(const SimulatedMachine& machine, std::uint64_t seed);
};

Result<void> Simulation::add(const SimulatedMachine& machine, std::uint64_t seed) {
  MC2_ASSIGN(auto profiled, profile_course(machine));
  std::mt19937_64 random(seed);
  grid_sizes.push_back(grid_size(machine));
  methods[0].courses.push_back(std::move(profiled));
  methods[1].courses.push_back(grid_course(machine, GridOrder::CoarseToFine, random));
  methods[2].courses.push_back(grid_course(machine, GridOrder::Random, random));
  methods[3].courses.push_back(brute_force_course(machine, random));
  return {};
}

void print(const Simulation& result) {
  const auto size_text = [&](double q) {
    return std::to_string(std::lround(profiler::quantile(result.grid_sizes, q)));
  };
  std::cout << "Regret of the plan against the exact best, " << result.grid_sizes.size()
            << " simulated machines (affine, bent, staircase; noise 1 to 5 %)\n"
            << quality_table(result.methods) << "  one round of the grid: " << size_text(0) << " to " << size_text(1)
            << " measurements\n";
}

} // namespace

void ProfilingBench::add_to(CLI::App& app) {
  app.add_option("--truths", truth_count, "simulated machines")->capture_default_str()->check(whole_number(1, 10'000));
  app.add_option("--seed", seed, "of the simulated machines")->capture_default_str()->check(whole_number(0, kMaxSeed));
  app.add_option("--chart", chart_file, "also draw median and worst regret into this .svg or .png file");
}

Result<ExitCode> ProfilingBench::run() const {
  using Truth = SimulatedMachine::Truth;
  constexpr std::array kTruths{Truth::Affine, Truth::Bent, Truth::Staircase};
  std::optional<ImageFile> chart;
  if (chart_file) {
    MC2_ASSIGN(chart, ImageFile::open(*chart_file, "--chart"));
  }
  Simulation result;
  for (int i = 0; i < truth_count; ++i) {
    const std::uint64_t machine_seed = seed * 1'000'003 + static_cast<std::uint64_t>(i);
    MC2_TRY(result.add(SimulatedMachine(kTruths[static_cast<std::size_t>(i) % kTruths.size()], machine_seed),
                       machine_seed));
  }
  print(result);
  if (chart) chart->write(quality_chart(result.methods));
  return ExitCode::Success;
}

} // namespace mc2::cli
