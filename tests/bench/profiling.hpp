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
  /// Quality of the plan against the number of measurements: mc2's profile, its grid of lengths alone in two orders,
  /// and brute force, on machines whose best plan is known. Errors: as ImageFile::open and profile_course.
  [[nodiscard]] Result<ExitCode> run() const;
};

} // namespace mc2::cli
