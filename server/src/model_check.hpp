#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "context.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/model_drift.hpp"

namespace mc2::server {

/// Compares samples that were just kept with the kept model of their operator and machine. Marks the model, and counts
/// and logs an alarm where they disagree. Returns what the answer says about it: as drift_json, or null where no model
/// is kept.
[[nodiscard]] nlohmann::json check_against_model(Context& context, const planner::Profile& fresh);

/// The samples of the newest `most_batches` batches that were kept after the model. They are of the model's machine,
/// and of any operator with the same block costs. Errors: as Store::list_samples.
[[nodiscard]] Result<std::vector<planner::Sample>> samples_since(const store::Store& store,
                                                                 const store::StoredModel& kept, int most_batches);

/// Marks those of the newest 500 kept models that their newest batch of samples disagrees with; so the marks survive a
/// restart. Errors: those of the store.
[[nodiscard]] Result<void> find_drifted_models(StoreGate& store, DriftWatch& drift);

/// {"has_drifted": ..., "lanes": [...]}
[[nodiscard]] nlohmann::json drift_json(const profiler::ModelDrift& drift);

} // namespace mc2::server
