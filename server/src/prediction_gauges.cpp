#include "prediction_gauges.hpp"

#include <vector>

#include "mc2/profiler/statistics.hpp"

namespace mc2::server {
namespace {

constexpr int kMaxPlans = 500; ///< the newest: a scrape after a change reads them all

/// Measured / predicted makespan - 1 of the newest plans that were raced.
Result<std::vector<double>> prediction_errors_in(const store::Store& store) {
  MC2_ASSIGN(const auto listed, store.list_plans({.limit = kMaxPlans}));
  std::vector<double> errors;
  for (const store::Listed& item : listed) {
    const auto found = store.find_plan(item.key);
    if (!found || !found.value().plan.validation) continue; // damaged or removed meanwhile; or never raced
    const double predicted_us = found.value().plan.makespan.us, measured_us = found.value().plan.validation->fused_us;
    if (predicted_us > 0 && measured_us > 0) errors.push_back(measured_us / predicted_us - 1);
  }
  return errors;
}

} // namespace

void PredictionGauges::refresh(StoreGate& store, Metrics& metrics) {
  const std::int64_t revision = store.revision();
  if (revision == revision_) return;
  const auto errors = store.read(&prediction_errors_in);
  if (!errors) return;
  revision_ = revision;
  metrics.set_raced_plans(errors.value().size());
  for (const auto& [name, q] : {std::pair{"0.5", 0.5}, std::pair{"0.9", 0.9}, std::pair{"1", 1.0}})
    metrics.set_prediction_error(name, errors.value().empty() ? 0 : profiler::quantile(errors.value(), q));
}

} // namespace mc2::server
