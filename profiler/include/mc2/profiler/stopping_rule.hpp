#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// At most 1 / kWarmUpShare of a budget is spent on warming up.
inline constexpr int kWarmUpShare = 8;

/// Converts a budget in seconds to whole milliseconds, rounded up so that a short budget does not become 0.
/// Errors: InvalidSpec ("budget_s") outside 0 to 1e6.
[[nodiscard]] Result<std::chrono::milliseconds> budget_of(double seconds);

struct StoppingOptions {
  int min_count = 7;
  int max_count = 40;
  double relative_half_width = 0.02; ///< stop when the 90 % interval of kLowQuantile is this narrow

  /// Sets max_count to `count`, and lowers min_count to it where min_count is larger.
  void limit(int count) {
    max_count = count;
    min_count = std::min(min_count, count);
  }

  /// Errors: InvalidSpec naming the option: counts 1 <= min <= max, width >= 0.
  [[nodiscard]] Result<void> validate() const;
};

/// Decides when one size has been timed often enough: when the confidence interval of its low quantile is narrow, or
/// max_count samples are there.
class StoppingRule {
 public:
  explicit StoppingRule(const StoppingOptions& options) : options_(options) {}

  void add(double time_us);
  [[nodiscard]] bool is_finished() const;
  /// Whether the interval is narrow.
  [[nodiscard]] bool is_settled() const;
  [[nodiscard]] int count() const noexcept { return static_cast<int>(times_us_.size()); }
  /// Number of samples after which the interval should be narrow, at least count() and min_count, at most max_count.
  /// The width falls with the square root of the number of samples.
  [[nodiscard]] int expected_count() const;
  /// Why the rule is finished, or what it still waits for, e.g. "interval 1.4 % after 11 samples".
  [[nodiscard]] std::string reason() const;

 private:
  /// Relative half-width of the quantile's interval; infinite with fewer than min_count samples.
  [[nodiscard]] double relative_half_width() const;

  StoppingOptions options_;
  std::vector<double> times_us_;
};

} // namespace mc2::profiler

#pragma GCC visibility pop
