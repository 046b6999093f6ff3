#pragma once

#include <span>
#include <vector>

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// A point value with an interval that covers it with the stated confidence.
struct Interval {
  double value = 0;
  double low = 0;
  double high = 0;
  /// Half the interval's width relative to the value; infinite for a value of 0.
  [[nodiscard]] double relative_half_width() const noexcept;
};

/// Linear-interpolated quantile (type 7 of Hyndman and Fan, 1996). `values` need not be sorted but must not be empty;
/// q lies in [0, 1].
[[nodiscard]] double quantile(std::span<const double> values, double q);

/// quantile() at 0.5. Not empty.
[[nodiscard]] double median(std::span<const double> values);

/// 1.4826 times the median distance from the median: of normal noise the standard deviation, unmoved by outliers
/// (Rousseeuw and Croux, 1993). Not empty.
[[nodiscard]] double robust_deviation(std::span<const double> values);

/// Distribution-free confidence interval of a quantile from order statistics: the number of values below the true
/// quantile is binomial (Conover, Practical Nonparametric Statistics, 1999, §3.2), (1 - confidence) / 2 in each tail.
/// A side with too few values for the confidence asked ends at the smallest or the largest value.
/// `values` as for quantile; 0 < confidence < 1.
[[nodiscard]] Interval quantile_interval(std::span<const double> values, double q, double confidence);

/// Marks values further than `limit` scaled median absolute deviations from the median, on the slow AND the fast
/// side, but never one within 10 % of the median. Where the deviation is unknown (fewer than 5 values) or 0, only
/// values beyond a factor of 2 of the median are marked. Default: 6 deviations keep every value of a long-tailed,
/// uninterrupted series.
[[nodiscard]] std::vector<bool> find_outliers(std::span<const double> values, double limit = 6.0);

/// Standard deviation (n - 1) / mean; 0 for fewer than 2 values or a mean of 0.
[[nodiscard]] double relative_deviation(std::span<const double> values) noexcept;

/// Median of the ratios numerator[i] / denominator[i] with its interval: pairs were taken moments apart, so that the
/// machine's drift cancels. Same length, not empty, denominators > 0.
[[nodiscard]] Interval paired_ratio(std::span<const double> numerators, std::span<const double> denominators,
                                    double confidence);

} // namespace mc2::profiler

#pragma GCC visibility pop
