#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "context.hpp"

namespace mc2::cli {

struct ActiveBench {
  int truth_count = 60; ///< simulated machines
  std::uint64_t seed = 1;
  std::optional<std::string> chart_file;
  bool is_measured = false; ///< on the host backend with emulated links instead

  void add_to(CLI::App& app);
  /// Plan quality against number of measurements: active, the sweep's grid in three orders, and brute force. Measured:
  /// the plans of an active profile and of the default sweep, raced with every cut of the family.
  /// Errors: as ImageFile::open, active_course and race_family. Throws SystemError.
  [[nodiscard]] Result<ExitCode> run() const;
};

} // namespace mc2::cli
