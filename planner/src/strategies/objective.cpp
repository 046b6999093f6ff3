#include "strategies/objective.hpp"

#include <algorithm>

#include "mc2/planner/text.hpp"

namespace mc2::planner::strategies {

double objective_us(const Problem& problem, const Plan& plan) {
  return plan.makespan.us +
         interval_multiple(problem.options.objective_quantile) * (plan.makespan.high_us - plan.makespan.us);
}

const VariantCost& best_uncut_variant(const Problem& problem) {
  const auto& variants = problem.model.variants;
  if (variants.size() == 1) return variants.front();
  const auto uncut_us = [&](const VariantCost& cost) {
    return objective_us(problem, predict(problem, cost, Cut{{problem.rows}}, ""));
  };
  return *std::min_element(variants.begin(), variants.end(),
                           [&](const VariantCost& a, const VariantCost& b) { return uncut_us(a) < uncut_us(b); });
}

Plan require_significance(const Problem& problem, Plan plan, Plan uncut) {
  const double gain_us = uncut.makespan.us - plan.makespan.us;
  if (!problem.options.require_significant_gain || !plan.is_cut()) return plan;
  const double explained_us = explained_gain_us(problem, plan, cost_of(problem, uncut.variant));
  if (gain_us > explained_us) return plan;
  uncut.reason = std::string(uncut.timeline.overlap_us > 0 ? "uncut, the lanes overlap as it is" : "do not cut") +
                 ": the best cut, " + plan.cut.text() + ", is predicted " + percent_text(gain_us / uncut.makespan.us) +
                 " faster, but the model's intervals explain up to " + percent_text(explained_us / uncut.makespan.us);
  return uncut;
}

} // namespace mc2::planner::strategies
