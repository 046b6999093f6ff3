#include "prediction_gauges.hpp"

#include <optional>
#include <vector>

#include "kept_plans.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::server {

void PredictionGauges::refresh(StoreGate& store, Metrics& metrics, DamageWatch& damage) {
  const std::int64_t revision = store.revision();
  if (revision == revision_) return;
  const auto plans = store.read([&](const store::Store& read) { return newest_plans(read, damage); });
  if (!plans) return;
  revision_ = revision;
  const auto [errors, gains, covered_count] = figures_of(plans.value());
  metrics.set_raced_plans(errors.size());
  metrics.set_covered_plans(covered_count);
  const auto quantile = [](const std::vector<double>& values, double q) {
    return values.empty() ? std::nullopt : std::optional(profiler::quantile(values, q));
  };
  metrics.set_gain(quantile(gains, 0.5));
  for (const auto& [name, q] : {std::pair{"0.5", 0.5}, std::pair{"0.9", 0.9}, std::pair{"1", 1.0}})
    metrics.set_prediction_error(name, quantile(errors, q));
}

} // namespace mc2::server
