#include <nlohmann/json.hpp>

#include "follower.hpp"
#include "mc2/server/service.hpp"
#include "openapi_text.hpp"
#include "routes/routes.hpp"

namespace mc2::server {

Result<Response> answer_livez(Context&, const Call&) { return json_response(nlohmann::json{{"status", "live"}}); }

Result<Response> answer_readyz(Context& context, const Call& call) {
  if (context.is_draining) return problem(503, "the service is stopping; ask another service", call.request.id);
  // Anybody may ask, so this does not read the store.
  const StoreState state = context.store.state();
  if (state == StoreState::DiskFull) return problem(503, context.store.advice(state), call.request.id);
  if (state != StoreState::Well) return Error{ErrorCode::Unreadable, "", context.store.advice(state)};
  nlohmann::json ready{{"status", "ready"}, {"revision", context.store.revision()}};
  if (context.follower != nullptr) {
    const Follower::State state = context.follower->state();
    ready["replica"] = {{"connected", state.is_connected},
                        {"behind_ms", state.behind.count()},
                        {"leader_revision", state.leader_revision}};
  }
  return json_response(ready);
}

Result<Response> answer_version(Context&, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  return json_response(nlohmann::json{{"name", "mc2"}, {"version", MC2_VERSION}, {"api", "v1"}});
}

Result<Response> answer_metrics(Context& context, const Call&) {
  context.predictions.refresh(context.store, context.metrics, context.damage);
  context.metrics.set_watchers(context.changes.subscriber_count());
  context.metrics.set_drifted_models(context.drift.drifted_count());
  if (context.follower != nullptr) {
    const Follower::State state = context.follower->state();
    context.metrics.set_replica(state.is_connected, std::chrono::duration<double>(state.behind).count());
  }
  return Response{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                  .body = std::make_shared<const std::string>(context.metrics.text())};
}

Result<Response> answer_openapi(Context&, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  static const auto text = std::make_shared<const std::string>(kOpenApiText);
  return Response{.content_type = "application/yaml", .body = text};
}

} // namespace mc2::server
