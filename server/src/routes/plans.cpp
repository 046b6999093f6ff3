#include "mc2/executor/cutting.hpp"
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
  return planner::explain(plan, model ? &model.value() : nullptr, executor::default_options_on(plan.fingerprint, plan.op));
}

} // namespace

Result<Response> list_plans(Context& context, const Call& call) {
  const auto filter = read_filter(call.query);
  if (!filter) return filter.error();
  auto plans = context.store.read([&](const store::Store& store) { return store.list_plans(with_one_more(filter.value())); });
  if (!plans) return plans.error();
  return list_response("mc2.plan_list/1", std::move(plans).value(), filter.value().limit);
}

Result<Response> add_plan(Context& context, const Call& call) {
  if (auto known = call.query.require_all_known(); !known) return known.error();
  const auto plan = store::decode_plan(call.request.body);
  if (!plan) return plan.error();
  const auto kept = context.store.write(
      [&](store::Store& store) { return store.put_plan(plan.value(), "tuned", context.utc_now()); });
  if (!kept) return kept.error();
  return kept_response("/v1/plans/", kept.value());
}

Result<Response> answer_plan(Context& context, const Call& call) {
  auto plan = find_plan(context, call);
  if (!plan) return plan.error();
  Response response = json_response(std::move(plan.value().document));
  response.etag = "\"" + plan.value().digest + "\"";
  return response;
}

Result<Response> remove_plan(Context& context, const Call& call) {
  const auto plan = find_plan(context, call); // a prefix names one plan, or none
  if (!plan) return plan.error();
  const auto removed =
      context.store.write([&](store::Store& store) { return store.remove_plan(plan.value().digest); });
  if (!removed) return removed.error();
  return Response{.status = 204, .content_type = {}, .body = nullptr, .etag = {}};
}

Result<Response> answer_explanation(Context& context, const Call& call) {
  const auto plan = find_plan(context, call);
  if (!plan) return plan.error();
  const auto explanation = explain(context, plan.value().plan);
  if (!explanation) return explanation.error();
  return json_response(store::encode(explanation.value()));
}

} // namespace mc2::server
