#include "model_check.hpp"

#include <nlohmann/json.hpp>

namespace mc2::server {

using nlohmann::json;

json drift_json(const profiler::ModelDrift& drift) {
  json lanes = json::array();
  for (const profiler::LaneDrift& lane : drift.lanes)
    lanes.push_back({{"variant", lane.variant},
                     {"component", to_string(lane.component)},
                     {"sample_count", lane.sample_count},
                     {"median_residual", lane.median_residual},
                     {"limit", lane.limit},
                     {"has_drifted", lane.has_drifted}});
  return {{"has_drifted", drift.has_drifted()}, {"lanes", std::move(lanes)}};
}

json check_against_model(Context& context, const planner::Profile& fresh) {
  const auto model =
      context.store.read([&](const store::Store& store) { return store.find_model(fresh.op, fresh.fingerprint); });
  if (!model) return nullptr;
  const profiler::ModelDrift drift = profiler::find_drift(model.value(), fresh.samples);
  if (!drift.lanes.empty()) context.drift.set(model.value(), drift.has_drifted());
  for (const profiler::LaneDrift& lane : drift.lanes)
    if (lane.has_drifted) context.metrics.count_drift(to_string(lane.component));
  if (drift.has_drifted() && context.surroundings.event)
    context.surroundings.event("new samples of " + model.value().op.text() + " on " +
                               model.value().fingerprint.label() + " disagree with the kept model: " + drift.text() +
                               "; profile and fit again");
  return drift_json(drift);
}

} // namespace mc2::server
