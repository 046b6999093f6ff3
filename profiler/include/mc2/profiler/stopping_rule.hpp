#pragma once

#include <string>
#include <vector>

namespace mc2::profiler {

struct StoppingOptions {
  int min_count = 7;
  int max_count = 40;
  double quantile = 0.25;             ///< the low quantile that is fitted
  double confidence = 0.90;
  double relative_half_width = 0.02;  ///< stop when the quantile's interval is this narrow
};

/// Decides when one size has been timed often enough: the confidence interval of its low quantile is narrow, or the
/// maximum is reached.
class StoppingRule {
 public:
  explicit StoppingRule(const StoppingOptions& options) : options_(options) {}

  void add(double time_us);
  [[nodiscard]] bool is_finished() const;
  [[nodiscard]] int count() const noexcept { return static_cast<int>(times_us_.size()); }
  /// Why it stopped or what it is waiting for, e.g. "interval 1.4 % after 11 samples".
  [[nodiscard]] std::string reason() const;

 private:
  StoppingOptions options_;
  std::vector<double> times_us_;
};

} // namespace mc2::profiler
