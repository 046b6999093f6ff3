#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "context.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/model_drift.hpp"

namespace mc2::server {

/// What the newest samples say about a kept model.
struct RecentDrift {
  profiler::ModelDrift drift;
  std::size_t sample_count = 0; ///< samples that were read, judged or not
};

/// Compares a kept model with samples that were kept after it: of its machine, and of any operator with the same block
/// costs. Each lane is judged by as many of the newest batches as have enough samples of it for a verdict, of 16 at
/// most. Errors: as Store::list_samples.
[[nodiscard]] Result<RecentDrift> recent_drift(const store::Store& store, const store::StoredModel& kept);

/// Calls recent_drift() for the model of samples that were just kept, and marks the model or removes its mark. Counts
/// and logs an alarm if a lane that they are of has drifted. Returns the answer's part about it, as drift_json; null
/// where no model is kept.
[[nodiscard]] nlohmann::json check_against_model(Context& context, const planner::Profile& fresh);

/// Marks those of the newest 500 kept models that recent_drift() finds; so the marks survive a restart. Errors: those
/// of the store.
[[nodiscard]] Result<void> find_drifted_models(StoreGate& store, DriftWatch& drift);

/// {"has_drifted": ..., "lanes": [...]}
[[nodiscard]] nlohmann::json drift_json(const profiler::ModelDrift& drift);

} // namespace mc2::server
