#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "double_oracle.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/text.hpp"
#include "parallel_for.hpp"
#include "texts.hpp"

/// Errors of the checks of results.
namespace mc2::executor {

inline constexpr int kDigits = 9; ///< decimal digits that tell each f32 number from its neighbours

struct Position {
  ResultRow at;
  std::int64_t column = 0;
};

[[nodiscard]] inline Error mismatch(const Position& at, const std::string& detail) {
  return {ErrorCode::Mismatch, "c",
          rank_text(at.at.rank) + ", row " + std::to_string(at.at.row) + ", column " + std::to_string(at.column) +
              ": " + detail};
}

/// The element with the largest ratio of its error to the allowed error, or the first whose ratio is NaN.
struct WorstElement {
  double ratio = 0;
  std::int64_t column = 0;
  double value = 0, expected = 0, allowed = 0;

  [[nodiscard]] std::string text() const {
    return "is " + number_text(value, kDigits) + ", should be " + number_text(expected, kDigits) + " within " +
           number_text(allowed, kDigits);
  }
};

[[nodiscard]] inline WorstElement worst_element(std::span<const double> values, const OracleRow& oracle) {
  double worst_ratio = 0;
  std::size_t worst = 0;
  for (std::size_t j = 0; j < values.size() && !std::isnan(worst_ratio); ++j) {
    const double difference = std::abs(values[j] - oracle.expected[j]);
    const double ratio = difference == 0 ? 0 : difference / oracle.allowed[j];
    if (ratio <= worst_ratio) continue;
    worst_ratio = ratio;
    worst = j;
  }
  return {worst_ratio, static_cast<std::int64_t>(worst), values[worst], oracle.expected[worst], oracle.allowed[worst]};
}

struct WorstRatio {
  std::optional<std::int64_t> wrong; ///< the first index whose ratio is above 1 or NaN
  double ratio = 0;                  ///< the largest, if none is wrong
};

/// Calls `ratio_of(0)` to `ratio_of(count - 1)` on several threads.
[[nodiscard]] inline WorstRatio worst_ratio(std::int64_t count, const std::function<double(std::int64_t)>& ratio_of) {
  std::vector<double> ratios(static_cast<std::size_t>(count));
  parallel_for(count, [&](std::int64_t i) { ratios[static_cast<std::size_t>(i)] = ratio_of(i); });
  const auto wrong = std::ranges::find_if(ratios, [](double ratio) { return !(ratio <= 1); });
  if (wrong != ratios.end()) return {wrong - ratios.begin(), *wrong};
  return {std::nullopt, ratios.empty() ? 0 : std::ranges::max(ratios)};
}

} // namespace mc2::executor
