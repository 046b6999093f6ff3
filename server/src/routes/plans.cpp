#include <nlohmann/json.hpp>

#include "error_map.hpp"
#include "mc2/planner/explanation.hpp"
#include "mc2/store/codec.hpp"
#include "plan_answer.hpp"
#include "routes/listing.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

Result<store::StoredPlan> find_plan(Context& context, const Call& call) {
  if (auto known = call.query.require_all_known(); !known) return known.error();
  return context.store.read([&](const store::Store& store) { return store.find_plan(call.id); });
}

/// The plan's own model, if it is still kept.
Result<planner::Explanation> explain(Context& context, const planner::Plan& plan) {
  const auto model = context.store.read(
      [&](const store::Store& store) { return store.find_model(plan.op, plan.fingerprint); });
  return planner::explain(plan, model ? &model.value() : nullptr, options_for(plan.fingerprint, {}));
}

} // namespace

Response list_plans(Context& context, const Call& call) {
  const auto filter = read_filter(call.query);
  if (!filter) return problem_of(filter.error(), call.request.id);
  auto plans = context.store.read([&](const store::Store& store) { return store.list_plans(with_one_more(filter.value())); });
  if (!plans) return problem_of(plans.error(), call.request.id);
  return list_response("mc2.plan_list/1", std::move(plans).value(), filter.value().limit);
}

Response add_plan(Context& context, const Call& call) {
  if (auto known = call.query.require_all_known(); !known) return problem_of(known.error(), call.request.id);
  const auto plan = store::decode_plan(call.request.body);
  if (!plan) return problem_of(plan.error(), call.request.id);
  const auto kept = context.store.write(
      [&](store::Store& store) { return store.put_plan(plan.value(), "tuned", context.utc_now()); });
  if (!kept) return problem_of(kept.error(), call.request.id);
  Response response = json_response(nlohmann::json{{"digest", kept.value()}}.dump(), 201);
  response.headers.emplace_back("Location", "/v1/plans/" + kept.value());
  return response;
}

Response answer_plan(Context& context, const Call& call) {
  auto plan = find_plan(context, call);
  if (!plan) return problem_of(plan.error(), call.request.id);
  Response response = json_response(std::move(plan.value().document));
  response.etag = "\"" + plan.value().digest + "\"";
  return response;
}

Response remove_plan(Context& context, const Call& call) {
  const auto plan = find_plan(context, call); // a prefix names one plan, or none
  if (!plan) return problem_of(plan.error(), call.request.id);
  const auto removed =
      context.store.write([&](store::Store& store) { return store.remove_plan(plan.value().digest); });
  if (!removed) return problem_of(removed.error(), call.request.id);
  return {.status = 204, .content_type = {}, .body = nullptr, .etag = {}};
}

Response answer_explanation(Context& context, const Call& call) {
  const auto plan = find_plan(context, call);
  if (!plan) return problem_of(plan.error(), call.request.id);
  const auto explanation = explain(context, plan.value().plan);
  if (!explanation) return problem_of(explanation.error(), call.request.id);
  return json_response(store::encode(explanation.value()));
}

} // namespace mc2::server
