#pragma once

#include <cstdint>
#include <string>

#include "context.hpp"

namespace mc2::cli {

/// `mc2-bench prediction`: tunes operators at one m and predicts others. Compares the times and benefits that users
/// see, and the anchored ones, with measurements taken a moment later. A second run on the same store is another
/// session.
struct PredictionBench {
  std::string store_file, csv_file;
  int shape_count = 30;
  std::int64_t rows = 1024;
  std::uint64_t seed = 1;
  double tune_budget_s = 4, race_budget_s = 1.5;

  void add_to(CLI::App& app);
  /// Errors: as tune_operator, finder::find_model and race.
  [[nodiscard]] Result<ExitCode> run() const;
};

} // namespace mc2::cli
