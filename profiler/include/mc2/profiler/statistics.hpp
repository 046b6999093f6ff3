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

/// The quantile of a size's times that is watched and fitted: interruptions hardly change it.
inline constexpr double kLowQuantile = 0.25;

/// quantile() at 0.5. `values` must not be empty.
[[nodiscard]] double median(std::span<const double> values);

/// Standard deviation over median absolute deviation of a normal distribution.
inline constexpr double kNormalMad = 1.4826;

/// kNormalMad times the median distance from the median. For normal noise this is the standard deviation; outliers
/// hardly change it (Rousseeuw and Croux, 1993). `values` must not be empty.
[[nodiscard]] double robust_deviation(std::span<const double> values);

/// Distribution-free confidence interval of a quantile from order statistics: the number of values below the true
/// quantile is binomial (Conover, Practical Nonparametric Statistics, 1999, §3.2). Each tail holds (1 - confidence)
/// / 2. Where the values are too few for that, the side ends at the smallest or the largest value. `values` as for
/// quantile; 0 < confidence < 1.
[[nodiscard]] Interval quantile_interval(std::span<const double> values, double q, double confidence);

/// Marks values further than 6 times robust_deviation() from the median, on the slow AND the fast side, but never a
/// value within 10 % of the median. With fewer than 5 values or a deviation of 0, only values beyond a factor of 2 of
/// the median are marked. 6 deviations keep every value of a long-tailed, uninterrupted series.
[[nodiscard]] std::vector<bool> find_outliers(std::span<const double> values);

/// Standard deviation (with n - 1) / mean; 0 for fewer than 2 values or a mean of 0.
[[nodiscard]] double relative_deviation(std::span<const double> values) noexcept;

/// Median of the ratios numerators[i] / denominators[i] with its interval. The two times of a pair were measured
/// moments apart, so that the machine's drift cancels. Both lists have the same length and are not empty; denominators
/// > 0.
[[nodiscard]] Interval paired_ratio(std::span<const double> numerators, std::span<const double> denominators,
                                    double confidence);

} // namespace mc2::profiler

#pragma GCC visibility pop
