#include "mc2/profiler/stopping_rule.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "mc2/planner/text.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler {
Result<std::chrono::milliseconds> budget_of(double seconds) {
  constexpr double kMaxS = 1e6;
  if (!(seconds >= 0 && seconds <= kMaxS)) return Error{ErrorCode::InvalidSpec, "budget_s", "must be 0 to 1e6 s"};
  return planner::to_ms(seconds);
}

Result<void> StoppingOptions::validate() const {
  if (min_count < 1) return Error{ErrorCode::InvalidSpec, "stopping.min_count", "must be at least 1"};
  if (max_count < min_count) return Error{ErrorCode::InvalidSpec, "stopping.max_count", "must be at least min_count"};
  if (!(relative_half_width >= 0)) {
    return Error{ErrorCode::InvalidSpec, "stopping.relative_half_width", "must be 0 or more"};
  }
  return {};
}

void StoppingRule::add(double time_us) { times_us_.push_back(time_us); }

double StoppingRule::relative_half_width() const {
  if (times_us_.empty() || count() < options_.min_count) return std::numeric_limits<double>::infinity();
  return quantile_interval(times_us_, kLowQuantile, 0.90).relative_half_width();
}

bool StoppingRule::is_settled() const { return relative_half_width() <= options_.relative_half_width; }

bool StoppingRule::is_finished() const { return count() >= options_.max_count || is_settled(); }

int StoppingRule::expected_count() const {
  const double width = relative_half_width();
  const int least = std::max(options_.min_count, count());
  if (count() < options_.min_count || width <= options_.relative_half_width) return least;
  const double growth = width / options_.relative_half_width;
  const double expected = std::min(count() * growth * growth, static_cast<double>(options_.max_count));
  return std::max(least, static_cast<int>(std::isfinite(expected) ? expected : options_.max_count));
}

std::string StoppingRule::reason() const {
  const std::string samples = std::to_string(count()) + " samples";
  const double width = relative_half_width();
  if (width <= options_.relative_half_width) return "interval " + percent_text(width, 2) + " after " + samples;
  if (count() >= options_.max_count) return "interval " + percent_text(width, 2) + " at the maximum of " + samples;
  if (count() < options_.min_count) return samples + " of at least " + std::to_string(options_.min_count);
  return "interval " + percent_text(width, 2) + " after " + samples + ", waiting for " +
         percent_text(options_.relative_half_width, 2);
}

} // namespace mc2::profiler
