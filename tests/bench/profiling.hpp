#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "context.hpp"

namespace mc2::cli {

struct ProfilingBench {
  int truth_count = 60; ///< simulated machines
  std::uint64_t seed = 1;
  std::optional<std::string> chart_file;

  void add_to(CLI::App& app);
  /// Shows the quality of the plan over the number of measurements, on simulated machines whose best plan is known. The
  /// methods are mc2's profile, its grid of lengths alone in two orders, and brute force.
  /// Errors: as ImageFile::open and profile_course.
  [[nodiscard]] Result<ExitCode> run() const;
};

} // namespace mc2::cli
