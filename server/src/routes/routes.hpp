#pragma once

#include "context.hpp"

/// The answers of every route, a file for each resource. Each returns a problem document for what it refuses.
namespace mc2::server {

// health.cpp
[[nodiscard]] Response answer_livez(Context& context, const Call& call);
[[nodiscard]] Response answer_readyz(Context& context, const Call& call);
[[nodiscard]] Response answer_version(Context& context, const Call& call);
[[nodiscard]] Response answer_metrics(Context& context, const Call& call);
[[nodiscard]] Response answer_openapi(Context& context, const Call& call);

// plan_queries.cpp
[[nodiscard]] Response answer_plan_query(Context& context, const Call& call);
[[nodiscard]] Response answer_plan_batch(Context& context, const Call& call);
[[nodiscard]] Response answer_what_if(Context& context, const Call& call);

// plans.cpp
[[nodiscard]] Response list_plans(Context& context, const Call& call);
[[nodiscard]] Response add_plan(Context& context, const Call& call);
[[nodiscard]] Response answer_plan(Context& context, const Call& call);
[[nodiscard]] Response remove_plan(Context& context, const Call& call);
[[nodiscard]] Response answer_explanation(Context& context, const Call& call);

// models.cpp
[[nodiscard]] Response list_models(Context& context, const Call& call);
[[nodiscard]] Response add_model(Context& context, const Call& call);
[[nodiscard]] Response answer_model(Context& context, const Call& call);
[[nodiscard]] Response add_samples(Context& context, const Call& call);
[[nodiscard]] Response list_fingerprints(Context& context, const Call& call);

} // namespace mc2::server
