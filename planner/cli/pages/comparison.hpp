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

/// One time of both sides. The verdict is on B: better when even the upper end of the ratio's 90 % interval is below
/// 1, worse when even the lower end is above 1.
struct ComparedRow {
  std::string what;
  double a_us = 0, b_us = 0;
  double ratio = 1, low = 1, high = 1; ///< B / A
  Comparison verdict = Comparison::Indistinguishable;
};

/// The row of two times whose 90 % intervals are known; the errors are independent, so the ratio's logarithm adds
/// their squares. Times and ends above 0.
struct TimeInterval {
  double us = 0, low_us = 0, high_us = 0;
};
[[nodiscard]] ComparedRow compared_row(std::string what, const TimeInterval& a, const TimeInterval& b);

/// "1.032"
[[nodiscard]] std::string ratio_text(double ratio);

/// Medians of each size that both sides measured, with their order statistics' intervals; sizes of fewer than six
/// samples are taken to be known to 10 % only. Errors: NotFound when they share no size.
[[nodiscard]] Result<std::vector<ComparedRow>> compare_profiles(const planner::Profile& a, const planner::Profile& b);

/// Both curves of each variant that both sides have, at sizes that both know, with the curves' own intervals.
/// Errors: NotFound when they share no variant, or no size.
[[nodiscard]] Result<std::vector<ComparedRow>> compare_models(const planner::CostModel& a, const planner::CostModel& b);

/// Makespan and its parts, predicted, and measured where both were. Errors: InvalidSpec for different operators.
[[nodiscard]] Result<std::vector<ComparedRow>> compare_plans(const planner::Plan& a, const planner::Plan& b);

} // namespace mc2::cli
