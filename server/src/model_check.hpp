#pragma once

#include <nlohmann/json_fwd.hpp>

#include "context.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/model_drift.hpp"

namespace mc2::server {

/// Compares samples that have just been kept with the model that is kept for them: an alarm is counted and logged.
/// Returns what an answer says of it: as drift_json, or null where no model is kept.
[[nodiscard]] nlohmann::json check_against_model(Context& context, const planner::Profile& fresh);

/// {"has_drifted": ..., "lanes": [...]}
[[nodiscard]] nlohmann::json drift_json(const profiler::ModelDrift& drift);

} // namespace mc2::server
