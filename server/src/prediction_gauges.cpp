#include "prediction_gauges.hpp"

#include <vector>

#include "mc2/profiler/statistics.hpp"

namespace mc2::server {
namespace {

constexpr int kMaxPlans = 500; ///< the newest: a scrape after a change reads them all

struct Predictions {
  std::vector<double> errors;    ///< measured / predicted makespan - 1
  std::size_t covered_count = 0; ///< whose measured time lies in its interval

  void add(const planner::Estimate& predicted, double measured_us) {
    errors.push_back(measured_us / predicted.us - 1);
    covered_count += predicted.low_us <= measured_us && measured_us <= predicted.high_us ? 1 : 0;
  }
};

/// Of the newest plans that were raced.
Result<Predictions> predictions_in(const store::Store& store) {
  MC2_ASSIGN(const auto listed, store.list_plans({.limit = kMaxPlans}));
  Predictions predictions;
  for (const store::Listed& item : listed) {
    const auto found = store.find_plan(item.key);
    if (!found || !found.value().plan.validation) continue; // damaged or removed meanwhile; or never raced
    const planner::Plan& plan = found.value().plan;
    if (plan.makespan.us > 0 && plan.validation->fused_us > 0)
      predictions.add(plan.makespan, plan.validation->fused_us);
  }
  return predictions;
}

} // namespace

void PredictionGauges::refresh(StoreGate& store, Metrics& metrics) {
  const std::int64_t revision = store.revision();
  if (revision == revision_) return;
  const auto found = store.read(&predictions_in);
  if (!found) return;
  revision_ = revision;
  const auto& [errors, covered_count] = found.value();
  metrics.set_raced_plans(errors.size());
  metrics.set_covered_plans(covered_count);
  for (const auto& [name, q] : {std::pair{"0.5", 0.5}, std::pair{"0.9", 0.9}, std::pair{"1", 1.0}})
    metrics.set_prediction_error(name, errors.empty() ? 0 : profiler::quantile(errors, q));
}

} // namespace mc2::server
