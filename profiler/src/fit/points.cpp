#include "fit/points.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>

#include "fit/robust.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler::fit {
namespace {

constexpr std::size_t kMaxPointCount = 128;
constexpr double kSameSizeRatio = 1e-6;
constexpr double kFallTolerance = 0.1;
constexpr double kFallStandardErrors = 2;
constexpr double kMaxFallShare = 0.2;
constexpr double kContradictionRatio = 1.25;
constexpr double kResolvedShare = 0.2;
constexpr double kTiedShare = 0.95;

/// Empty when the value is legal.
std::string fault_of(double value, double limit) {
  if (!std::isfinite(value)) return "is not a finite number";
  if (value <= 0) return "is " + number_text(value) + "; must be above 0";
  if (value > limit) return "is " + number_text(value) + "; must be at most " + number_text(limit);
  return {};
}

Result<void> check_values(std::span<const FitPoint> points) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::string field = "points[" + std::to_string(i) + "]";
    if (std::string fault = fault_of(points[i].x, kMaxFitSize); !fault.empty()) {
      return Error{ErrorCode::CannotFit, field + ".x", "size " + fault};
    }
    if (std::string fault = fault_of(points[i].time_us, kMaxFitTimeUs); !fault.empty()) {
      return Error{ErrorCode::CannotFit, field + ".time_us", "time " + fault};
    }
    if (!std::isfinite(points[i].relative_spread) || points[i].relative_spread < 0) {
      return Error{ErrorCode::CannotFit, field + ".relative_spread", "must be finite and 0 or more"};
    }
  }
  return {};
}

bool is_faster(const FitPoint& a, const FitPoint& b) { return a.time_us < b.time_us; }

/// Merges a group into its point of median time, which a single wrong point does not change.
FitPoint merge(std::span<const FitPoint> group) {
  std::vector<FitPoint> sorted(group.begin(), group.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.end(), is_faster);
  FitPoint merged = *middle;
  std::int64_t sample_count = 0;
  for (const FitPoint& point : group) {
    merged.relative_spread = std::max(merged.relative_spread, point.relative_spread);
    sample_count += point.sample_count;
  }
  merged.sample_count = static_cast<int>(std::min<std::int64_t>(sample_count, 1'000'000'000));
  return merged;
}

std::vector<FitPoint> merge_equal_sizes(std::span<const FitPoint> sorted) {
  std::vector<FitPoint> distinct;
  for (std::size_t begin = 0; begin < sorted.size();) {
    std::size_t end = begin + 1;
    while (end < sorted.size() && sorted[end].x <= sorted[begin].x * (1 + kSameSizeRatio)) ++end;
    distinct.push_back(merge(sorted.subspan(begin, end - begin)));
    begin = end;
  }
  return distinct;
}

std::vector<FitPoint> thin(std::span<const FitPoint> distinct) {
  std::vector<FitPoint> thinned;
  for (std::size_t i = 0; i < kMaxPointCount; ++i) {
    const std::size_t begin = i * distinct.size() / kMaxPointCount;
    const std::size_t end = (i + 1) * distinct.size() / kMaxPointCount;
    thinned.push_back(merge(distinct.subspan(begin, end - begin)));
  }
  return thinned;
}

bool falls(const FitPoint& smaller, const FitPoint& larger) {
  const double standard_error = std::hypot(smaller.relative_spread / std::sqrt(std::max(smaller.sample_count, 1)),
                                           larger.relative_spread / std::sqrt(std::max(larger.sample_count, 1)));
  const double tolerance = std::max(kFallTolerance, kFallStandardErrors * standard_error);
  return larger.time_us < smaller.time_us * (1 - tolerance);
}

/// Logarithm of the factor by which two sizes contradict each other, less that of the tolerated factor; 0 when they
/// agree.
double contradiction(const FitPoint& a, const FitPoint& b) {
  const FitPoint& smaller = a.x < b.x ? a : b;
  const FitPoint& larger = a.x < b.x ? b : a;
  const double growth = std::log(larger.time_us / smaller.time_us);
  const double excess = std::max(-growth, growth - std::log(larger.x / smaller.x));
  return std::max(excess - std::log(kContradictionRatio), 0.0);
}

/// The sum of each point's contradictions with all others: its blame.
class Blame {
 public:
  explicit Blame(std::span<const FitPoint> points) : points_(points), blames_(points.size(), 0) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      for (const FitPoint& other : points) blames_[i] += contradiction(points[i], other);
    }
  }

  [[nodiscard]] double total() const { return std::accumulate(blames_.begin(), blames_.end(), 0.0) / 2; }

  [[nodiscard]] std::size_t worst() const {
    return static_cast<std::size_t>(std::max_element(blames_.begin(), blames_.end()) - blames_.begin());
  }

  /// Whether another point might as well be the wrong one: its blame is about as large, and more than half of it comes
  /// from contradicting this point.
  [[nodiscard]] bool is_tied(std::size_t point) const {
    for (std::size_t i = 0; i < blames_.size(); ++i) {
      if (i == point || blames_[i] < kTiedShare * blames_[point]) continue;
      if (contradiction(points_[i], points_[point]) > blames_[i] / 2) return true;
    }
    return false;
  }

  void remove(std::size_t point) {
    for (std::size_t i = 0; i < blames_.size(); ++i) {
      blames_[i] = std::max(blames_[i] - contradiction(points_[i], points_[point]), 0.0);
    }
    blames_[point] = 0;
  }

 private:
  std::span<const FitPoint> points_;
  std::vector<double> blames_;
};

} // namespace

std::vector<bool> find_contradicting(std::span<const FitPoint> points) {
  Blame blame(points);
  const double total = blame.total();
  std::vector<bool> marked(points.size(), false);
  const auto limit = static_cast<std::size_t>(kMaxOutlierShare * static_cast<double>(points.size()));
  for (std::size_t count = 0; count < limit && blame.total() > kResolvedShare * total; ++count) {
    const std::size_t worst = blame.worst();
    if (blame.is_tied(worst)) break;
    marked[worst] = true;
    blame.remove(worst);
  }
  if (blame.total() > kResolvedShare * total) marked.assign(points.size(), false);
  return marked;
}

Result<std::vector<FitPoint>> prepare_points(std::span<const FitPoint> points, int min_point_count) {
  if (points.empty()) return Error{ErrorCode::CannotFit, "points", "there are no samples to fit"};
  MC2_TRY(check_values(points));
  std::vector<FitPoint> sorted(points.begin(), points.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const FitPoint& a, const FitPoint& b) { return a.x < b.x; });
  std::vector<FitPoint> distinct = merge_equal_sizes(sorted);
  if (static_cast<int>(distinct.size()) < min_point_count) {
    std::string message = "too few distinct sizes: " + std::to_string(distinct.size()) + ", at least " +
                          std::to_string(min_point_count) + " are needed";
    if (distinct.size() == 1) message += "; every sample has size " + number_text(distinct.front().x);
    return Error{ErrorCode::CannotFit, "points", message};
  }
  if (distinct.size() > kMaxPointCount) distinct = thin(distinct);
  return distinct;
}

Result<void> check_growth(std::span<const FitPoint> points) {
  std::size_t fall_count = 0;
  const FitPoint* worst_smaller = nullptr;
  const FitPoint* worst_larger = nullptr;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      if (!falls(points[i], points[j])) continue;
      ++fall_count;
      const double ratio = points[j].time_us / points[i].time_us;
      if (worst_smaller != nullptr && ratio >= worst_larger->time_us / worst_smaller->time_us) continue;
      worst_smaller = &points[i];
      worst_larger = &points[j];
    }
  }
  const std::size_t pair_count = points.size() * (points.size() - 1) / 2;
  if (static_cast<double>(fall_count) <= kMaxFallShare * static_cast<double>(pair_count)) return {};
  return Error{ErrorCode::CannotFit, "points",
               "time falls with size beyond the noise: " + number_text(worst_smaller->time_us) + " us at size " +
                   number_text(worst_smaller->x) + " but " + number_text(worst_larger->time_us) + " us at size " +
                   number_text(worst_larger->x) + "; " + std::to_string(fall_count) + " of " +
                   std::to_string(pair_count) +
                   " pairs contradict each other; discard these samples and measure again on a quieter machine"};
}

} // namespace mc2::profiler::fit
