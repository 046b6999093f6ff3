#include <algorithm>
#include <nlohmann/json.hpp>

#include "mc2/planner/block_lengths.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/store/codec.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

constexpr double kMinSpeed = 0.01, kMaxSpeed = 100;

/// What of a kept model's operator and machine is to be different.
struct Change {
  planner::OpSpec op;
  double compute_speed = 1, link_speed = 1; ///< > 1: faster
  std::optional<std::int64_t> block_length, alignment;
};

Result<double> read_speed(const Query& query, const std::string& name) {
  MC2_ASSIGN(const auto given, query.real(name));
  const double speed = given.value_or(1);
  if (speed >= kMinSpeed && speed <= kMaxSpeed) return speed;
  return Error{ErrorCode::InvalidSpec, name, "must be 0.01 to 100; 2 means twice as fast as it was measured"};
}

Result<Change> read_change(const Query& query, const planner::OpSpec& op) {
  Change change{.op = op, .block_length = {}, .alignment = {}};
  std::optional<std::int64_t> m, n;
  for (const auto& [name, value] :
       {std::pair("m", &m), std::pair("n", &n), std::pair("block_length", &change.block_length),
        std::pair("alignment", &change.alignment)}) {
    MC2_ASSIGN(*value, query.integer(name));
  }
  MC2_ASSIGN(change.compute_speed, read_speed(query, "compute_speed"));
  MC2_ASSIGN(change.link_speed, read_speed(query, "link_speed"));
  MC2_TRY(query.require_all_known());
  change.op.m = m.value_or(op.m);
  change.op.n = n.value_or(op.n);
  MC2_TRY(change.op.validate());
  if (change.block_length && (*change.block_length < 1 || *change.block_length > planner::kMaxSize))
    return Error{ErrorCode::InvalidSpec, "block_length", "must be from 1 to " + std::to_string(planner::kMaxSize)};
  return change;
}

planner::CostModel with_speeds(planner::CostModel model, const Change& change) {
  for (planner::VariantCost& cost : model.variants) {
    cost.compute.curve = planner::scaled(std::move(cost.compute.curve), 1 / change.compute_speed);
    if (cost.local_compute)
      cost.local_compute = planner::scaled(std::move(*cost.local_compute), 1 / change.compute_speed);
    cost.communication.curve = planner::scaled(std::move(cost.communication.curve), 1 / change.link_speed);
  }
  return model;
}

planner::PlanOptions options_of(const planner::Fingerprint& machine, const Change& change) {
  auto options = planner::default_options_on(machine);
  if (change.alignment) options.alignment = options.min_block_rows = *change.alignment;
  return options;
}

/// The choice whose length is nearest to the wanted one: lengths are steps, and what is wanted may lie between two.
const planner::LengthChoice& nearest(const std::vector<planner::LengthChoice>& choices, std::int64_t wanted) {
  const auto distance = [wanted](const planner::LengthChoice& choice) {
    return wanted > choice.long_rows ? wanted - choice.long_rows : choice.long_rows - wanted;
  };
  return *std::ranges::min_element(choices, {}, distance);
}

nlohmann::json entry_of(const planner::LengthChoice& choice) {
  const planner::Plan& plan = choice.plan;
  return {{"block_length", choice.long_rows}, {"block_count", plan.cut.block_rows.size()},
          {"cut", plan.cut.text()},           {"variant", plan.variant.text()},
          {"makespan_us", plan.makespan.us},  {"low_us", plan.makespan.low_us},
          {"high_us", plan.makespan.high_us}};
}

Response to_response(const Change& change, const planner::Plan& best,
                     const std::vector<planner::LengthChoice>& choices) {
  const auto wanted = change.block_length.value_or(*std::ranges::max_element(best.cut.block_rows));
  const planner::LengthChoice& choice = nearest(choices, wanted);
  nlohmann::json lengths = nlohmann::json::array();
  for (const auto& each : choices) lengths.push_back(entry_of(each));
  const planner::OpTraits& traits = planner::traits_of(change.op.kind);
  const nlohmann::json head{{"axis", to_string(planner::cut_axis(change.op))},
                            {"axis_length", traits.cut_axis_length(change.op)},
                            {"first_lane", to_string(traits.first_lane)},
                            {"block_length", choice.long_rows},
                            {"lengths", std::move(lengths)},
                            {"schema", "mc2.exploration/1"}};
  std::string body = head.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const planner::Plan& chosen = change.block_length ? choice.plan : best;
  body.insert(1, R"("best":)" + store::encode(best) + R"(,"chosen":)" + store::encode(chosen) + ",");
  return json_response(std::move(body));
}

} // namespace

Result<Response> explore_model(Context& context, const Call& call) {
  MC2_ASSIGN(const auto kept, context.store.read([&](const store::Store& store) { return store.find_model(call.id); }));
  MC2_ASSIGN(const auto change, read_change(call.query, kept.model.op));
  const planner::OpSpec& op = change.op;
  const planner::CostModel model = with_speeds(kept.model, change);
  const auto options = options_of(model.fingerprint, change);
  MC2_ASSIGN(const auto best, planner::make_plan(op, model, options, call.is_stopped));
  MC2_ASSIGN(const auto choices, planner::compare_lengths(op, model, options, call.is_stopped));
  return to_response(change, best, choices);
}

} // namespace mc2::server
