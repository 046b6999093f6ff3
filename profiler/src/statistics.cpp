#include "mc2/profiler/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "mc2/planner/error.hpp"

namespace mc2::profiler {
namespace {

constexpr std::size_t kMinOutlierCount = 5;
constexpr double kOutlierDeviations = 6;
constexpr double kNeverOutlierRatio = 0.1;
constexpr double kFallbackFactor = 2.0;

double sorted_quantile(std::span<const double> sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::vector<double> sorted_copy(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

/// cdf[i] = P(Binomial(count, q) <= i). In logarithms, so that (1 - q)^count cannot underflow the recurrence.
std::vector<double> binomial_cdf(std::size_t count, double q) {
  std::vector<double> cdf(count + 1);
  double log_mass = static_cast<double>(count) * std::log1p(-q);
  const double log_odds = std::log(q) - std::log1p(-q);
  double sum = 0;
  for (std::size_t i = 0; i <= count; ++i) {
    sum += std::exp(log_mass);
    cdf[i] = sum;
    log_mass += std::log(static_cast<double>(count - i) / static_cast<double>(i + 1)) + log_odds;
  }
  return cdf;
}

bool is_beyond_factor(double value, double median, double factor) {
  return value > median * factor || value * factor < median;
}

} // namespace

double Interval::relative_half_width() const noexcept {
  if (value == 0) return std::numeric_limits<double>::infinity();
  return (high - low) / 2 / std::abs(value);
}

double quantile(std::span<const double> values, double q) {
  MC2_CHECK(!values.empty() && q >= 0 && q <= 1, "quantile needs values and 0 <= q <= 1");
  return sorted_quantile(sorted_copy(values), q);
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

Interval quantile_interval(std::span<const double> values, double q, double confidence) {
  MC2_CHECK(!values.empty() && q >= 0 && q <= 1, "quantile_interval needs values and 0 <= q <= 1");
  const std::vector<double> sorted = sorted_copy(values);
  const double value = sorted_quantile(sorted, q);
  if (q == 0 || q == 1) return {value, sorted.front(), sorted.back()};

  // The i-th smallest value lies above the true quantile with probability P(Binomial < i), 1-based i.
  const double tail = (1 - confidence) / 2;
  const std::vector<double> cdf = binomial_cdf(sorted.size(), q);
  std::size_t low = 0;
  while (low + 1 < sorted.size() && cdf[low + 1] <= tail) ++low;
  std::size_t high = sorted.size() - 1;
  while (high > 0 && 1 - cdf[high - 1] <= tail) --high;
  return {value, std::min(sorted[low], value), std::max(sorted[high], value)};
}

double robust_deviation(std::span<const double> values) {
  const double center = median(values);
  std::vector<double> distances(values.size());
  std::transform(values.begin(), values.end(), distances.begin(), [&](double v) { return std::abs(v - center); });
  return kNormalMad * median(distances);
}

std::vector<bool> find_outliers(std::span<const double> values) {
  std::vector<bool> marks(values.size(), false);
  if (values.size() < 2) return marks;
  const double center = median(values);
  const double deviation = robust_deviation(values);
  const bool is_scale_known = values.size() >= kMinOutlierCount && deviation > 0;
  const double reach = std::max(kOutlierDeviations * deviation, kNeverOutlierRatio * std::abs(center));
  for (std::size_t i = 0; i < values.size(); ++i) {
    marks[i] =
        is_scale_known ? std::abs(values[i] - center) > reach : is_beyond_factor(values[i], center, kFallbackFactor);
  }
  return marks;
}

double relative_deviation(std::span<const double> values) noexcept {
  if (values.size() < 2) return 0;
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  if (mean == 0) return 0;
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1)) / mean;
}

Interval paired_ratio(std::span<const double> numerators, std::span<const double> denominators, double confidence) {
  MC2_CHECK(numerators.size() == denominators.size(), "paired_ratio needs pairs");
  std::vector<double> ratios(numerators.size());
  std::transform(numerators.begin(), numerators.end(), denominators.begin(), ratios.begin(),
                 [](double numerator, double denominator) { return numerator / denominator; });
  return quantile_interval(ratios, 0.5, confidence);
}

} // namespace mc2::profiler
