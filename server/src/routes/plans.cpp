#include <algorithm>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/explanation.hpp"
#include "mc2/store/codec.hpp"
#include "plan_answer.hpp"
#include "routes/listing.hpp"
#include "routes/plan_forms.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

Result<store::StoredPlan> find_plan(Context& context, const Call& call) {
  if (auto known = call.query.require_all_known(); !known) return known.error();
  return context.store.read([&](const store::Store& store) { return store.find_plan(call.id); });
}

/// The plan's own model, if it is still kept.
Result<planner::Explanation> explain(Context& context, const planner::Plan& plan) {
  const auto model =
      context.store.read([&](const store::Store& store) { return store.find_model(plan.op, plan.fingerprint); });
  return planner::explain(plan, model ? &model.value() : nullptr, planner::likely_limits(plan));
}

/// What a plan is kept as: "tuned", or "tuned VARIANT" where only that one raced. Errors: InvalidSpec.
Result<std::string> read_purpose(const Query& query) {
  constexpr std::size_t kMaxLength = 256;
  const std::string purpose = query.text("purpose").value_or("tuned");
  if (auto known = query.require_all_known(); !known) return known.error();
  const bool is_printable = std::ranges::all_of(purpose, [](char c) { return c >= ' ' && c <= '~'; });
  const bool is_tuned = purpose == "tuned" || (purpose.starts_with("tuned ") && purpose.size() > 6);
  if (is_tuned && is_printable && purpose.size() <= kMaxLength) return purpose;
  return Error{ErrorCode::InvalidSpec, "purpose",
               "must be \"tuned\", or \"tuned VARIANT\" where only that variant raced"};
}

} // namespace

Result<Response> list_plans(Context& context, const Call& call) {
  return list_documents(context, call, "mc2.plan_list/1", &store::Store::list_plans);
}

Result<Response> add_plan(Context& context, const Call& call) {
  const auto purpose = read_purpose(call.query);
  if (!purpose) return purpose.error();
  const auto plan = store::decode_plan(call.request.body);
  if (!plan) return plan.error();
  const auto kept = context.store.write([&](store::Store& store) {
    return store.put_plan(plan.value(), purpose.value(), context.surroundings.utc_now());
  });
  if (!kept) return kept.error();
  return kept_response("/v1/plans/", kept.value());
}

Result<Response> answer_plan(Context& context, const Call& call) {
  const auto format = call.query.text("format");
  const auto plan = find_plan(context, call);
  if (!plan) return plan.error();
  return plan_in_form(plan.value(), format, call.request);
}

Result<Response> remove_plan(Context& context, const Call& call) {
  const auto plan = find_plan(context, call); // a prefix names one plan, or none
  if (!plan) return plan.error();
  const auto removed = context.store.write([&](store::Store& store) { return store.remove_plan(plan.value().digest); });
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
