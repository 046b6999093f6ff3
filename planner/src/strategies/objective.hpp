#pragma once

#include "mc2/planner/planner.hpp"
#include "strategies/block_passing.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// What is minimised over cuts, whose lanes overlap: the makespan, or the quantile of it that PlanOptions names. Each
/// lane's curve is off by one random factor, normal with the curve's interval as its 5 and 95 % points. The two factors
/// and the error of the overlap itself are independent of one another. docs/cost_model.md §5.
class Objective {
 public:
  Objective(const Problem& problem, const VariantCost& cost) noexcept
      : multiple_(interval_multiple(problem.options.objective_quantile)), half_width_(problem, cost, true) {}

  /// @param stretched_us makespan as a function of the factors on the first and the second lane's times
  template <typename StretchedUs>
  [[nodiscard]] double score_us(const StretchedUs& stretched_us) const {
    const double us = stretched_us(1.0, 1.0);
    if (multiple_ == 0) return us;
    return us + multiple_ * half_width_(stretched_us, us, 0, +1);
  }

 private:
  double multiple_;
  HalfWidth half_width_;
};

/// The objective of a predicted plan.
[[nodiscard]] double objective_us(const Problem& problem, const Plan& plan);

/// The objective of any cut of a variant.
[[nodiscard]] double objective_us(const Problem& problem, const VariantCost& cost, const Cut& cut);

/// The objective of a variant's uncut plan. Infinite if that plan is serial and the variant may not be serial's
/// (Problem::may_be_serial()).
[[nodiscard]] double uncut_objective_us(const Problem& problem, const VariantCost& cost, const BlockPassing& passing);

/// The variant whose uncut plan has the best objective: it need not be the best cut's.
[[nodiscard]] const VariantCost& best_uncut_variant(const Problem& problem);

/// `plan`; or `uncut` with the reason, if `plan` is a cut whose gain the model's errors explain (explained_gain_us).
[[nodiscard]] Plan require_significance(const Problem& problem, Plan plan, Plan uncut);

/// Says why the plan is uncut although the best cut is predicted faster.
/// @param gain, explained  shares of the uncut plan's time
[[nodiscard]] std::string unsure_reason(const Plan& uncut, const Cut& best, double gain, double explained);

} // namespace mc2::planner::strategies
