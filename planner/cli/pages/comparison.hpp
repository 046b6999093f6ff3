#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "context.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/profile.hpp"

namespace mc2::cli {

enum class Comparison : std::uint8_t { Better, Worse, Indistinguishable };
[[nodiscard]] std::string_view to_string(Comparison comparison) noexcept;

/// A time of both sides, A and B. The verdict is on B: better if the ratio's whole 90 % interval is below 1, worse if
/// it is above 1.
struct ComparedRow {
  std::string what;
  double a_us = 0, b_us = 0;
  double ratio = 1, low = 1, high = 1; ///< B / A
  Comparison verdict = Comparison::Indistinguishable;
};

/// A time with its 90 % interval. All three must be above 0 for compared_row(), which takes the errors of A and B to be
/// independent, and so adds the squares of their logarithms.
struct TimeInterval {
  double us = 0, low_us = 0, high_us = 0;
};
[[nodiscard]] ComparedRow compared_row(std::string what, const TimeInterval& a, const TimeInterval& b);

/// "1.032"
[[nodiscard]] std::string ratio_text(double ratio);

/// Compares the medians of each size that both sides measured. Their intervals come from order statistics; a size with
/// fewer than six samples counts as known to 10 %. Errors: NotFound when they share no size.
[[nodiscard]] Result<std::vector<ComparedRow>> compare_profiles(const planner::Profile& a, const planner::Profile& b);

/// Compares both curves of each variant that both sides have, at sizes within both valid ranges, with the curves' own
/// intervals.
/// Errors: NotFound when they share no variant, or no size.
[[nodiscard]] Result<std::vector<ComparedRow>> compare_models(const planner::CostModel& a, const planner::CostModel& b);

/// Compares the predicted makespans and their parts, and the measured makespans if both plans have one. Errors:
/// InvalidSpec for different operators or counts of rows.
[[nodiscard]] Result<std::vector<ComparedRow>> compare_plans(const planner::Plan& a, const planner::Plan& b);

} // namespace mc2::cli
