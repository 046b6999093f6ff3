#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "context.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/model_drift.hpp"

namespace mc2::server {

/// Compares samples that have just been kept with the model that is kept for them: an alarm is counted and logged.
/// Returns what an answer says of it: as drift_json, or null where no model is kept.
[[nodiscard]] nlohmann::json check_against_model(Context& context, const planner::Profile& fresh);

/// Samples that were kept after the model, of its newest batches: of any operator of equal block costs on its machine.
[[nodiscard]] Result<std::vector<planner::Sample>> samples_since(const store::Store& store,
                                                                 const store::StoredModel& kept, int most_batches);

/// Marks the kept models that the samples which came last disagree with, as they were marked before a restart: of the
/// newest 500. Errors: those of the store.
[[nodiscard]] Result<void> find_drifted_models(StoreGate& store, DriftWatch& drift);

/// {"has_drifted": ..., "lanes": [...]}
[[nodiscard]] nlohmann::json drift_json(const profiler::ModelDrift& drift);

} // namespace mc2::server
