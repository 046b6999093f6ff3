#pragma once

#include <cstdint>
#include <string>

#include "context.hpp"

namespace mc2::cli {

struct ActiveBench {
  int truth_count = 60;       ///< simulated machines
  std::uint64_t seed = 1;
  bool is_measured = false;   ///< on the host backend with an emulated link instead
  std::string shape = "768x768x768"; ///< of the measured mode, m x n x k; several joined by commas
  std::string link = "2.5Gbit,20us";
  std::string svg;            ///< file for the chart; empty: none

  void add_to(CLI::App& app);
  /// Plan quality against number of measurements: active, the sweep's grid, and random ones.
  [[nodiscard]] Result<ExitCode> run() const;
};

} // namespace mc2::cli
