#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

#include "context.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/profiler/tune.hpp"
#include "options/numbers.hpp"

namespace mc2::cli {

/// Options of the sweep, shared by `profile` and `tune`.
struct SweepSettings {
  double budget_s = 60;
  double precision = 0.02;
  int max_samples = 40;
  std::optional<std::int64_t> alignment;
  std::uint64_t seed = 1;
  std::optional<int> max_measurements;

  void add_to(CLI::App& app, bool with_alignment = true) {
    app.add_option("--budget", budget_s,
                   "seconds after which no new round of measurements starts, except the few that a result needs")
        ->capture_default_str()
        ->check(real_number(0.001, 86'400));
    app.add_option("--precision", precision, "stop measuring a size when its relative interval is this narrow")
        ->capture_default_str()
        ->check(real_number(0.0001, 1));
    app.add_option("--max-samples", max_samples, "most samples of one size")
        ->capture_default_str()
        ->check(whole_number(5, 10'000));
    app.add_option("--seed", seed, "seed of the random matrices and of the order of sizes")
        ->capture_default_str()
        ->check(whole_number(0, kMaxSeed));
    app.add_option("--measurements", max_measurements,
                   "take at most N timings for each variant, the most informative first (default: no limit)")
        ->check(whole_number(profiler::kMinMeasurementCount, 100'000));
    if (with_alignment)
      app.add_option("--align", alignment, "shortest block length worth measuring, in rows (default: the backend's)")
          ->check(whole_number(1, planner::kMaxSize));
  }

  [[nodiscard]] profiler::ProfileSettings settings() const {
    profiler::ProfileSettings result;
    result.max_measurement_count = max_measurements.value_or(0);
    result.sweep.seed = seed;
    result.sweep.budget = planner::to_ms(budget_s);
    result.sweep.stopping.relative_half_width = precision;
    result.sweep.stopping.max_count = max_samples;
    result.sweep.stopping.min_count = std::min(result.sweep.stopping.min_count, max_samples);
    return result;
  }
};

} // namespace mc2::cli
