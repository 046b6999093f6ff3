#pragma once

#include <cstdint>

#include "context.hpp"

namespace mc2::cli {

struct RefiningBench {
  int truth_count = 200; ///< simulated NPUs
  std::uint64_t seed = 1;
  bool times_blocks = false;

  void add_to(CLI::App& app);
  /// Shows the loss of the kept cut against the best of all cuts, after each round of measuring the cuts that
  /// profiler::refine() asks for, on NPUs whose cost of cutting mc2 does not know.
  /// Errors: as fit_cost_model, make_plan and refine.
  [[nodiscard]] Result<ExitCode> run() const;
};

} // namespace mc2::cli
