#include "model_check.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mc2::server {

using nlohmann::json;

namespace {

constexpr int kMostModels = 500;
constexpr int kMostListed = 100; ///< most batches listed for a model, as each is read and checked
/// Batches listed for each wanted one: the list also holds batches that are cut along another axis and do not count.
constexpr int kListedForOne = 8;

Result<std::vector<planner::CostModel>> drifted_models(const store::Store& store) {
  MC2_ASSIGN(const auto listed, store.list_models({.limit = kMostModels}));
  std::vector<planner::CostModel> drifted;
  for (const store::Listed& one : listed) {
    const auto kept = store.find_model(one.digest);
    if (!kept) continue; // removed meanwhile
    MC2_ASSIGN(const auto last, samples_since(store, kept.value(), 1));
    if (profiler::find_drift(kept.value().model, last).has_drifted()) drifted.push_back(kept.value().model);
  }
  return drifted;
}

} // namespace

Result<std::vector<planner::Sample>> samples_since(const store::Store& store, const store::StoredModel& kept,
                                                   int most_batches) {
  const planner::CostModel& model = kept.model;
  store::ListFilter filter = store::filter_of_equal_costs(model.op, model.fingerprint);
  filter.created_after = kept.created_at; // by date, because imported samples are old and their rows are new
  filter.limit = std::min(kMostListed, kListedForOne * most_batches);
  MC2_ASSIGN(const auto listed, store.list_samples(filter));
  std::vector<planner::Sample> samples;
  for (const store::Listed& batch : listed) {
    if (most_batches == 0) break; // the newest come first
    if (!planner::has_same_block_costs(batch.key.op, model.op)) continue;
    const auto found = store.find_samples(batch.digest);
    if (!found) continue; // removed meanwhile
    const auto& more = found.value().profile.samples;
    samples.insert(samples.end(), more.begin(), more.end());
    --most_batches;
  }
  return samples;
}

Result<void> find_drifted_models(StoreGate& store, DriftWatch& drift) {
  MC2_ASSIGN(const auto drifted, store.read(&drifted_models));
  for (const planner::CostModel& model : drifted) drift.set(model, true);
  return {};
}

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
  if (drift.has_drifted())
    context.surroundings.tell("new samples of " + model.value().op.text() + " on " + model.value().fingerprint.label() +
                              " disagree with the kept model: " + drift.text() + "; profile and fit again");
  return drift_json(drift);
}

} // namespace mc2::server
