#pragma once

#include <optional>
#include <string>
#include <vector>

#include "context.hpp"
#include "support.hpp"

namespace mc2::cli {

/// The kept plan of one shape compared with brute force: every cut of the short/long family with every variant of the
/// backend.
struct RegretFigure {
  planner::OpSpec op;
  std::string planned; ///< cut and variant that tuning kept, or "do not cut"
  std::string best;    ///< cut and variant of the fastest plan
  std::size_t contender_count = 0;
  double planned_us = 0;
  double best_us = 0;
  double tuning_s = 0;
  double brute_force_s = 0;
  /// Time of the kept plan / the fastest plan - 1; 0 if it is the fastest. Both are paired with serial in one race.
  double regret = 0;
};

/// `mc2-bench regret`: compares tuned plans with brute force on any backend, shape by shape.
struct RegretBench {
  MachineOptions machine;
  std::string shapes_file = "data/gpu_regret_shapes.csv";
  double budget_s = 5;
  std::optional<std::int64_t> alignment; ///< for the family and for planning; unset: the backend's default
  std::optional<double> time_limit_s;

  RegretBench() { machine.backend = "cuda"; }
  void add_to(CLI::App& app);
  /// Errors: as parse_shapes, tune_operator and race; Cancelled. Throws SystemError.
  [[nodiscard]] Result<ExitCode> run() const;

 private:
  [[nodiscard]] Result<RegretFigure> figure_of(const planner::OpSpec& op) const;
};

} // namespace mc2::cli
