#include <nlohmann/json.hpp>
#include <optional>

#include "kept_plans.hpp"
#include "mc2/finder/models.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/explanation.hpp"
#include "mc2/store/codec.hpp"
#include "plan_answer.hpp"
#include "routes/listing.hpp"
#include "routes/plan_forms.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

/// A plan with predictions, and the model that makes them.
struct Predicted {
  planner::Plan plan;
  std::optional<planner::CostModel> model;
};

/// Finds the model of a plan, if it is still kept. A plan that was raced without a model gets its predictions from the
/// model that the finder finds now.
Result<Predicted> predicted(const store::Store& store, const planner::Plan& plan) {
  if (plan.makespan.us > 0) {
    auto own = store.find_model(plan.op, plan.fingerprint);
    return Predicted{plan, own ? std::optional(std::move(own).value()) : std::nullopt};
  }
  const finder::PlanQuestion question{.op = plan.op, .machine = plan.fingerprint, .variant = plan.variant};
  const auto found = finder::find_model({.given = {}, .kept = finder::kept_in_unnamed(store)}, question);
  if (!found) return Predicted{plan, std::nullopt};
  MC2_ASSIGN(auto now, finder::with_prediction(plan, found.value(), question));
  return Predicted{std::move(now), finder::as_it_is_now(found.value(), plan.op)};
}

Result<planner::Explanation> explain(Context& context, const planner::Plan& kept,
                                     const planner::StopCheck& is_stopped) {
  MC2_ASSIGN(const auto now, context.store.read([&](const store::Store& store) { return predicted(store, kept); }));
  return planner::explain(now.plan, now.model ? &*now.model : nullptr, planner::likely_limits(now.plan), is_stopped);
}

/// The figures of a plan in a list: measured ones if it was raced, else predicted ones. Empty for a plan that is
/// removed or damaged.
std::string result_member(const store::Store& store, const store::Listed& item) {
  const auto kept = store.find_plan(item.digest);
  if (!kept) return "";
  const planner::Plan& plan = kept.value().plan;
  const auto& measured = plan.validation;
  const nlohmann::json result{{"cut", plan.cut.text()},
                              {"variant", plan.variant.text()},
                              {"is_measured", measured.has_value()},
                              {"fused_us", measured ? measured->fused_us : plan.makespan.us},
                              {"serial_us", measured ? measured->serial_us : plan.serial_us},
                              {"benefit", measured ? measured->benefit : plan.benefit()}};
  return R"(,"result":)" + result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace

Result<Response> list_plans(Context& context, const Call& call) {
  return list_documents(context, call, "mc2.plan_list/1", list_own_plans, result_member);
}

Result<Response> add_plan(Context& context, const Call& call) {
  const std::string purpose = call.query.text("purpose").value_or("tuned");
  MC2_TRY(call.query.require_all_known());
  MC2_ASSIGN(const auto plan, store::decode_plan(call.request.body));
  MC2_TRY(finder::require_purpose(plan, purpose));
  return keep_document(context, call, "/v1/plans/", [&](store::Store& store, const store::MayReplace& may_replace) {
    return store.put_plan(plan, purpose, context.surroundings.utc_now(), may_replace);
  });
}

Result<Response> answer_plan(Context& context, const Call& call) {
  const auto format = call.query.text("format");
  MC2_ASSIGN(const auto plan, find_kept<store::StoredPlan>(context, call, &store::Store::find_plan));
  return plan_in_form(plan, format, call.request);
}

Result<Response> answer_explanation(Context& context, const Call& call) {
  MC2_ASSIGN(const auto plan, find_kept<store::StoredPlan>(context, call, &store::Store::find_plan));
  MC2_ASSIGN(const auto explanation, explain(context, plan.plan, call.is_stopped));
  return json_response(store::encode(explanation));
}

} // namespace mc2::server
