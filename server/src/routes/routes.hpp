#pragma once

#include <optional>

#include "context.hpp"

/// The functions of the routes, in a file for each resource. Routes that only get or remove a kept document are in
/// listing.hpp. The error that a function returns becomes a problem document.
namespace mc2::server {

// health.cpp
[[nodiscard]] Result<Response> answer_livez(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_readyz(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_version(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_metrics(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_openapi(Context& context, const Call& call);

// plan_queries.cpp
[[nodiscard]] Result<Response> answer_plan_get(Context& context, const Call& call);
/// The kept answer to a question that was read before; nothing without one. Does not wait.
[[nodiscard]] std::optional<Response> known_plan(Context& context, const Request& request);
[[nodiscard]] Result<Response> answer_plan_ranges(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_plan_post(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_plan_batch(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_what_if(Context& context, const Call& call);

// llms.cpp
[[nodiscard]] Result<Response> list_llms(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_llm_plan(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_llm_plan_post(Context& context, const Call& call);

// plans.cpp
[[nodiscard]] Result<Response> list_plans(Context& context, const Call& call);
[[nodiscard]] Result<Response> add_plan(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_plan(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_explanation(Context& context, const Call& call);

// races.cpp
[[nodiscard]] Result<Response> list_races(Context& context, const Call& call);

// models.cpp
[[nodiscard]] Result<Response> list_models(Context& context, const Call& call);
[[nodiscard]] Result<Response> add_model(Context& context, const Call& call);
[[nodiscard]] Result<Response> remove_model(Context& context, const Call& call);
[[nodiscard]] Result<Response> list_fingerprints(Context& context, const Call& call);

// changes.cpp
[[nodiscard]] Result<Response> answer_changes(Context& context, const Call& call);

// history.cpp
[[nodiscard]] Result<Response> answer_history(Context& context, const Call& call);

// curves.cpp
[[nodiscard]] Result<Response> answer_curves(Context& context, const Call& call);

// exploration.cpp
[[nodiscard]] Result<Response> explore_model(Context& context, const Call& call);

// dashboard.cpp
[[nodiscard]] Result<Response> answer_dashboard(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_dashboard_asset(Context& context, const Call& call);

// drift.cpp
[[nodiscard]] Result<Response> answer_model_drift(Context& context, const Call& call);

// samples.cpp
[[nodiscard]] Result<Response> list_samples(Context& context, const Call& call);
[[nodiscard]] Result<Response> add_samples(Context& context, const Call& call);

// measurements.cpp
[[nodiscard]] Result<Response> list_measurements(Context& context, const Call& call);
[[nodiscard]] Result<Response> add_measurement(Context& context, const Call& call);

// tokens.cpp
[[nodiscard]] Result<Response> list_tokens(Context& context, const Call& call);
[[nodiscard]] Result<Response> add_token(Context& context, const Call& call);
[[nodiscard]] Result<Response> revoke_token(Context& context, const Call& call);

// backup.cpp
[[nodiscard]] Result<Response> answer_backup(Context& context, const Call& call);
[[nodiscard]] Result<Response> answer_snapshot(Context& context, const Call& call);
/// Refuses a replica that is another version of mc2, as it would answer otherwise. Errors: InvalidSpec naming the
/// parameter "version".
[[nodiscard]] Result<void> require_same_mc2(const Query& query, bool is_replica);

// imports.cpp
[[nodiscard]] Result<Response> import_log(Context& context, const Call& call);

} // namespace mc2::server
