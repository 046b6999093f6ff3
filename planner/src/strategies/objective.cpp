#include "strategies/objective.hpp"

#include <algorithm>
#include <limits>

#include "mc2/planner/text.hpp"

namespace mc2::planner::strategies {

double objective_us(const Problem& problem, const Plan& plan) {
  return plan.makespan.us +
         interval_multiple(problem.options.objective_quantile) * (plan.makespan.high_us - plan.makespan.us);
}

double objective_us(const Problem& problem, const VariantCost& cost, const Cut& cut) {
  const double us = simulate_cut(problem, cost, cut).makespan_us;
  const double multiple = interval_multiple(problem.options.objective_quantile);
  return multiple == 0 ? us : us + multiple * upper_half_width_us(problem, cost, cut);
}

double uncut_objective_us(const Problem& problem, const VariantCost& cost, const BlockPassing& passing) {
  if (!problem.may_be_serial(cost) && !overlaps_uncut(problem, cost, passing))
    return std::numeric_limits<double>::infinity();
  if (interval_multiple(problem.options.objective_quantile) == 0) return uncut_makespan_us(problem, cost, passing);
  return objective_us(problem, cost, Cut{{problem.rows}});
}

const VariantCost& best_uncut_variant(const Problem& problem) {
  return *std::ranges::min_element(problem.model.variants, {}, [&](const VariantCost& cost) {
    return uncut_objective_us(problem, cost, BlockPassing(problem, cost));
  });
}

Plan require_significance(const Problem& problem, Plan plan, Plan uncut) {
  const double gain_us = uncut.makespan.us - plan.makespan.us;
  if (!problem.requires_significance || !plan.is_cut()) return plan;
  const double explained_us = explained_gain_us(problem, cost_of(problem, plan.variant), plan.cut, plan.makespan.us,
                                                cost_of(problem, uncut.variant));
  if (gain_us > explained_us) return plan;
  uncut.reason = unsure_reason(uncut, plan.cut, gain_us / uncut.makespan.us, explained_us / uncut.makespan.us);
  return uncut;
}

std::string unsure_reason(const Plan& uncut, const Cut& best, double gain, double explained) {
  return std::string(uncut.timeline.overlap_us > 0 ? "uncut, the lanes overlap as it is" : "do not cut") +
         ": the best cut, " + best.text() + ", is predicted " + percent_text(gain) +
         " faster, but the model's intervals explain up to " + percent_text(explained);
}

} // namespace mc2::planner::strategies
