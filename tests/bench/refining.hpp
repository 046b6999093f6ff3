#pragma once

#include <cstdint>

#include "context.hpp"

namespace mc2::cli {

struct RefiningBench {
  int truth_count = 200; ///< simulated NPUs
  std::uint64_t seed = 1;
  bool times_blocks = false;

  void add_to(CLI::App& app);
  /// Loss of what is kept after each round of measuring the cuts that profiler::refine() asks for, against the best of
  /// all cuts, on NPUs whose cost of cutting is unknown to mc2. Errors: as fit_cost_model, make_plan and refine.
  [[nodiscard]] Result<ExitCode> run() const;
};

} // namespace mc2::cli
