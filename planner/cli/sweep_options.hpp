#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <optional>

#include "context.hpp"
#include "measure.hpp"

namespace mc2::cli {

/// Options of the sweep, shared by `profile` and `tune`.
struct SweepSettings {
  double budget_s = 60;
  double precision = 0.02;
  int max_samples = 40;
  std::optional<std::int64_t> alignment;
  std::uint64_t seed = 1;

  void add_to(CLI::App& app, bool with_alignment = true) {
    app.add_option("--budget", budget_s, "seconds after which no new round starts")->capture_default_str();
    app.add_option("--precision", precision, "stop a size when its interval is this narrow, relative")
        ->capture_default_str();
    app.add_option("--max-samples", max_samples, "most samples of one size")->capture_default_str();
    app.add_option("--seed", seed, "of the random matrices and of the order of sizes")->capture_default_str();
    if (with_alignment)
      app.add_option("--align", alignment, "shortest block length worth measuring, in rows (default: the backend's)");
  }

  /// Errors: InvalidSpec naming the option.
  [[nodiscard]] Result<ProfileSettings> checked(std::int64_t default_alignment) const {
    if (!(budget_s > 0 && budget_s <= 86'400))
      return Error{ErrorCode::InvalidSpec, "--budget", "must be above 0 and at most 86400 seconds"};
    if (!(precision > 0 && precision <= 1))
      return Error{ErrorCode::InvalidSpec, "--precision", "must be above 0 and at most 1, e.g. 0.02 for 2 %"};
    if (max_samples < 5 || max_samples > 10'000)
      return Error{ErrorCode::InvalidSpec, "--max-samples", "must be 5 to 10000"};
    const std::int64_t rows = alignment.value_or(default_alignment);
    if (rows < 1 || rows > planner::kMaxSize)
      return Error{ErrorCode::InvalidSpec, "--align", "must be 1 to " + std::to_string(planner::kMaxSize)};
    ProfileSettings settings;
    settings.alignment = rows;
    settings.sweep.seed = seed;
    settings.sweep.budget = std::chrono::milliseconds(static_cast<std::int64_t>(budget_s * 1000));
    settings.sweep.stopping.relative_half_width = precision;
    settings.sweep.stopping.max_count = max_samples;
    settings.sweep.stopping.min_count = std::min(settings.sweep.stopping.min_count, max_samples);
    return settings;
  }
};

} // namespace mc2::cli
