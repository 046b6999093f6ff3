#include "model_check.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "mc2/store/codec.hpp"

namespace mc2::server {

using nlohmann::json;

namespace {

constexpr int kMostModels = 500;
constexpr int kMostListed = 100; ///< also holds batches that are cut along another axis and do not count
constexpr int kMostBatches = 16; ///< most batches read for a model

bool is_decided(const profiler::LaneDrift& lane) { return lane.sample_count >= profiler::kMinDriftSamples; }

/// Takes the lanes of `more`, which is of more samples, except those that were decided by fewer.
void take_undecided(profiler::ModelDrift& drift, const profiler::ModelDrift& more) {
  for (const profiler::LaneDrift& lane : more.lanes) {
    const auto known = std::ranges::find_if(drift.lanes, [&](const profiler::LaneDrift& one) {
      return one.variant == lane.variant && one.component == lane.component;
    });
    if (known == drift.lanes.end())
      drift.lanes.push_back(lane);
    else if (!is_decided(*known))
      *known = lane;
  }
}

Result<std::vector<planner::CostModel>> drifted_models(const store::Store& store) {
  MC2_ASSIGN(const auto listed, store.list_models({.limit = kMostModels}));
  std::vector<planner::CostModel> drifted;
  for (const store::Listed& one : listed) {
    const auto kept = store.find_model(one.digest);
    if (!kept) continue; // removed meanwhile
    MC2_ASSIGN(const auto recent, recent_drift(store, kept.value()));
    if (recent.drift.has_drifted()) drifted.push_back(kept.value().model);
  }
  return drifted;
}

} // namespace

Result<RecentDrift> recent_drift(const store::Store& store, const store::StoredModel& kept) {
  const planner::CostModel& model = kept.model;
  store::ListFilter filter = store::filter_of_equal_costs(model.op, model.fingerprint);
  filter.created_after = kept.created_at; // by date, because imported samples are old and their rows are new
  filter.limit = kMostListed;
  MC2_ASSIGN(const auto listed, store.list_samples(filter));
  const std::size_t lane_count = 2 * model.variants.size();
  RecentDrift recent;
  std::vector<planner::Sample> samples;
  int batch_count = 0;
  for (const store::Listed& batch : listed) { // the newest come first
    if (batch_count == kMostBatches) break;
    if (!planner::has_same_block_costs(batch.key.op, model.op)) continue;
    const auto found = store.find_samples(batch.digest);
    if (!found) continue; // removed meanwhile
    const auto& more = found.value().profile.samples;
    samples.insert(samples.end(), more.begin(), more.end());
    take_undecided(recent.drift, profiler::find_drift(model, samples));
    ++batch_count;
    if (recent.drift.lanes.size() == lane_count && std::ranges::all_of(recent.drift.lanes, is_decided)) break;
  }
  recent.sample_count = samples.size();
  return recent;
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
  std::optional<planner::CostModel> model;
  const auto recent = context.store.read([&](const store::Store& store) -> Result<RecentDrift> {
    MC2_ASSIGN(model, store.find_model(fresh.op, fresh.fingerprint));
    MC2_ASSIGN(const auto kept, store.find_model(store::digest(store::encode(*model))));
    return recent_drift(store, kept);
  });
  if (!recent) return nullptr;
  const profiler::ModelDrift& drift = recent.value().drift;
  context.drift.set(*model, drift.has_drifted());
  profiler::ModelDrift alarm; // of the lanes that were sampled now
  for (const profiler::LaneDrift& sampled : profiler::find_drift(*model, fresh.samples).lanes)
    for (const profiler::LaneDrift& lane : drift.lanes)
      if (lane.has_drifted && lane.variant == sampled.variant && lane.component == sampled.component)
        alarm.lanes.push_back(lane);
  for (const profiler::LaneDrift& lane : alarm.lanes) context.metrics.count_drift(to_string(lane.component));
  if (alarm.has_drifted())
    context.surroundings.tell("new samples of " + model->op.text() + " on " + model->fingerprint.label() +
                              " disagree with the kept model: " + alarm.text() + "; profile and fit again");
  return drift_json(drift);
}

} // namespace mc2::server
