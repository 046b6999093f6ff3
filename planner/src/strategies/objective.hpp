#pragma once

#include "mc2/planner/planner.hpp"
#include "strategies/block_passing.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// What is minimised of cuts, whose lanes overlap: the makespan, or the quantile of it that PlanOptions names. A lane's
/// curve is off by one random factor, normal with the curve's interval as its 5 and 95 % points, and independent of the
/// other lane's and of what the overlap takes besides. docs/cost_model.md §5.
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

/// The same of a plan that is already predicted.
[[nodiscard]] double objective_us(const Problem& problem, const Plan& plan);

/// The same of any cut of a variant.
[[nodiscard]] double objective_us(const Problem& problem, const VariantCost& cost, const Cut& cut);

/// The same of a variant's uncut plan; without end where that is serial and may not be of this variant.
[[nodiscard]] double uncut_objective_us(const Problem& problem, const VariantCost& cost, const BlockPassing& passing);

/// The variant whose uncut plan has the best objective: it need not be the best cut's.
[[nodiscard]] const VariantCost& best_uncut_variant(const Problem& problem);

/// `plan`, or `uncut` with the reason when the plan is a cut whose gain is explained (explained_gain_us).
[[nodiscard]] Plan require_significance(const Problem& problem, Plan plan, Plan uncut);

/// Why a plan is not the best cut. @param gain, explained  shares of the time without a cut
[[nodiscard]] std::string unsure_reason(const Plan& uncut, const Cut& best, double gain, double explained);

} // namespace mc2::planner::strategies
