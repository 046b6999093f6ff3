#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// At most this part of a budget, an eighth, is spent on warming up.
inline constexpr int kWarmUpShare = 8;

/// A budget in seconds, in whole milliseconds, rounded up: a short time is not none. Errors: InvalidSpec ("budget_s")
/// outside 0 to 1e6.
[[nodiscard]] Result<std::chrono::milliseconds> budget_of(double seconds);

struct StoppingOptions {
  int min_count = 7;
  int max_count = 40;
  double quantile = 0.25; ///< the low quantile that is fitted
  double confidence = 0.90;
  double relative_half_width = 0.02; ///< stop when the quantile's interval is this narrow

  /// No more than so many, and fewer than min_count where these are fewer.
  void limit(int count) {
    max_count = count;
    min_count = std::min(min_count, count);
  }

  /// Errors: InvalidSpec naming the option: counts 1 <= min <= max, quantile and confidence inside (0, 1), width >=
  /// 0.
  [[nodiscard]] Result<void> validate() const;
};

/// Decides when one size has been timed often enough: the confidence interval of its low quantile is narrow, or the
/// maximum is reached.
class StoppingRule {
 public:
  explicit StoppingRule(const StoppingOptions& options) : options_(options) {}

  void add(double time_us);
  [[nodiscard]] bool is_finished() const;
  /// Whether the interval is narrow, rather than the maximum reached.
  [[nodiscard]] bool is_settled() const;
  [[nodiscard]] int count() const noexcept { return static_cast<int>(times_us_.size()); }
  /// Samples after which the interval should be narrow: its width falls with the square root of their number.
  /// Between the minimum (or what is there already) and the maximum.
  [[nodiscard]] int expected_count() const;
  /// Why it stopped or what it is waiting for, e.g. "interval 1.4 % after 11 samples".
  [[nodiscard]] std::string reason() const;

 private:
  /// Of the quantile; infinite before the minimum.
  [[nodiscard]] double relative_half_width() const;

  StoppingOptions options_;
  std::vector<double> times_us_;
};

} // namespace mc2::profiler

#pragma GCC visibility pop
