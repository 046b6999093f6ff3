#include <nlohmann/json.hpp>

#include "mc2/finder/models.hpp"
#include "mc2/store/codec.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

nlohmann::json entry_of(const store::Measurement& race, const planner::Plan& plan) {
  return {{"cut", race.cut.text()},
          {"is_of_plan", planner::is_same_choice(race, plan)},
          {"variant", race.variant.text()},
          {"fused_us", race.fused_us},
          {"serial_us", race.serial_us},
          {"compute_us", race.compute_us},
          {"communication_us", race.communication_us},
          {"predicted_us", race.predicted_us},
          {"benefit", race.benefit},
          {"benefit_low", race.benefit_low},
          {"benefit_high", race.benefit_high},
          {"pair_count", race.run_count}};
}

/// The prediction for the plan's cut as `mc2 plan --anchor` makes it, at the uncut times that its last race measured;
/// "null" where the cut was not raced or the model is not kept.
std::string anchored_document(const store::Store& store, const planner::Plan& plan,
                              const std::vector<store::Measurement>& races) {
  const store::Measurement* last = nullptr;
  for (const store::Measurement& race : races)
    if (planner::is_same_choice(race, plan)) last = &race;
  if (last == nullptr) return "null";
  const auto anchored =
      finder::predict_at({plan.variant.text(), last->compute_us, last->communication_us},
                         {.given = {}, .kept = finder::kept_in_unnamed(store)},
                         {.op = plan.op, .machine = plan.fingerprint, .may_transfer = false}, plan.cut);
  return anchored ? store::encode(anchored.value()) : "null";
}

} // namespace

Result<Response> list_races(Context& context, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  return context.store.read([&](const store::Store& store) -> Result<Response> {
    MC2_ASSIGN(const auto kept, store.find_plan(call.id));
    const planner::Plan& plan = kept.plan;
    MC2_ASSIGN(const auto races, store.list_measurements(plan.op, plan.fingerprint));
    nlohmann::json items = nlohmann::json::array();
    for (const store::Measurement& race : races) items.push_back(entry_of(race, plan));
    const nlohmann::json rest{{"first_lane", to_string(planner::traits_of(plan.op.kind).first_lane)},
                              {"items", std::move(items)},
                              {"machine", kept.key.fingerprint_digest},
                              {"schema", "mc2.race_list/1"}};
    std::string body = rest.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    body.insert(1, R"("anchored":)" + anchored_document(store, plan, races) + ",");
    return json_response(std::move(body));
  });
}

} // namespace mc2::server
