#include "kept_plans.hpp"

#include <utility>

#include "mc2/client/plan_service.hpp"

namespace mc2::server {

Result<std::vector<store::Listed>> list_own_plans(const store::Store& store, store::ListFilter filter) {
  filter.without_purpose = client::kServedBy;
  return store.list_plans(filter);
}

Result<std::vector<store::StoredPlan>> newest_plans(const store::Store& store, DamageWatch& damage) {
  constexpr int kMostPlans = 500; // reading a plan takes tens of microseconds
  MC2_ASSIGN(const auto listed, list_own_plans(store, {.limit = kMostPlans}));
  std::vector<store::StoredPlan> plans;
  for (const store::Listed& item : listed) {
    auto found = store.find_plan(item.key);
    if (found)
      plans.push_back(std::move(found).value());
    else // removed meanwhile, or damaged
      damage.note(found.error());
  }
  return plans;
}

PlanFigures figures_of(const std::vector<store::StoredPlan>& plans) {
  PlanFigures figures;
  for (const store::StoredPlan& stored : plans) {
    const planner::Plan& plan = stored.plan;
    const planner::Estimate& predicted = plan.makespan;
    if (!plan.validation || !(predicted.us > 0) || !(plan.validation->fused_us > 0)) continue;
    const double measured_us = plan.validation->fused_us;
    figures.errors.push_back(measured_us / predicted.us - 1);
    figures.gains.push_back(plan.validation->benefit);
    figures.covered_count += predicted.low_us <= measured_us && measured_us <= predicted.high_us ? 1 : 0;
  }
  return figures;
}

} // namespace mc2::server
