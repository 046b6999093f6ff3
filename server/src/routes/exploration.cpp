#include <algorithm>
#include <nlohmann/json.hpp>

#include "mc2/finder/models.hpp"
#include "mc2/planner/block_lengths.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/store/codec.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

constexpr double kMinSpeed = 0.01, kMaxSpeed = 100;

/// The wanted changes to a kept model's operator and machine.
struct Change {
  planner::OpSpec op;
  double compute_speed = 1, link_speed = 1; ///< > 1: faster
  std::optional<std::int64_t> block_length, alignment;
};

Result<double> read_speed(const Query& query, const std::string& name) {
  MC2_ASSIGN(const auto given, query.real(name));
  const double speed = given.value_or(1);
  if (speed >= kMinSpeed && speed <= kMaxSpeed) return speed;
  return Error{ErrorCode::InvalidSpec, name, "must be 0.01 to 100; 2 means twice as fast as now"};
}

Result<Change> read_change(const Query& query, const planner::OpSpec& op) {
  Change change{.op = op, .block_length = {}, .alignment = {}};
  std::optional<std::int64_t> m, n;
  for (const auto& [name, value] :
       {std::pair("m", &m), std::pair("n", &n), std::pair("block_length", &change.block_length),
        std::pair("alignment", &change.alignment)}) {
    MC2_ASSIGN(*value, query.integer(name, 1, planner::kMaxSize));
  }
  MC2_ASSIGN(change.compute_speed, read_speed(query, "compute_speed"));
  MC2_ASSIGN(change.link_speed, read_speed(query, "link_speed"));
  MC2_TRY(query.require_all_known());
  change.op.m = m.value_or(op.m);
  change.op.n = n.value_or(op.n);
  MC2_TRY(change.op.validate());
  return change;
}

planner::CostModel with_speeds(planner::CostModel model, const Change& change) {
  return planner::scaled(std::move(model), 1 / change.compute_speed, 1 / change.link_speed);
}

planner::PlanOptions options_of(const planner::Fingerprint& machine, const Change& change) {
  auto options = planner::default_options_on(machine);
  if (change.alignment) options.alignment = options.min_block_rows = *change.alignment;
  return options;
}

/// The choice with the length nearest to the wanted one, which may lie between two lengths.
const planner::LengthChoice& nearest(const std::vector<planner::LengthChoice>& choices, std::int64_t wanted) {
  const auto distance = [wanted](const planner::LengthChoice& choice) {
    return wanted > choice.long_rows ? wanted - choice.long_rows : choice.long_rows - wanted;
  };
  return *std::ranges::min_element(choices, {}, distance);
}

/// The lengths of the blocks that are not long: none or one number for plans of the short/long family.
nlohmann::json odd_blocks_of(const planner::LengthChoice& choice) {
  nlohmann::json odd = nlohmann::json::array();
  for (const std::int64_t rows : choice.plan.cut.block_rows)
    if (rows != choice.long_rows) odd.push_back(rows);
  return odd;
}

nlohmann::json entry_of(const planner::LengthChoice& choice) {
  const planner::Plan& plan = choice.plan;
  return {{"block_length", choice.long_rows},    {"block_count", plan.cut.block_rows.size()},
          {"odd_blocks", odd_blocks_of(choice)}, {"cut", plan.cut.text()},
          {"variant", plan.variant.text()},      {"makespan_us", plan.makespan.us},
          {"low_us", plan.makespan.low_us},      {"high_us", plan.makespan.high_us}};
}

Response to_response(const Change& change, const planner::LengthComparison& comparison) {
  const auto& [choices, best_index] = comparison;
  const planner::LengthChoice& choice =
      change.block_length ? nearest(choices, *change.block_length) : choices[best_index];
  nlohmann::json lengths = nlohmann::json::array();
  for (const auto& each : choices) lengths.push_back(entry_of(each));
  const planner::OpTraits& traits = planner::traits_of(change.op.kind);
  const nlohmann::json head{{"axis", to_string(planner::cut_axis(change.op))},
                            {"axis_length", traits.cut_axis_length(change.op)},
                            {"first_lane", to_string(traits.first_lane)},
                            {"block_length", choice.long_rows},
                            {"best_length", choices[best_index].long_rows},
                            {"lengths", std::move(lengths)},
                            {"schema", "mc2.exploration/1"}};
  std::string body = head.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  body.insert(1, R"("best":)" + store::encode(comparison.best()) + R"(,"chosen":)" + store::encode(choice.plan) + ",");
  return json_response(std::move(body));
}

/// The question, and the model as the finder would use it for an answer.
struct Explored {
  Change change;
  finder::PlanQuestion question;
  finder::FoundModel found;
};

Result<Explored> find_explored(const store::Store& store, const Call& call) {
  MC2_ASSIGN(auto kept, store.find_model(call.id));
  MC2_ASSIGN(const auto change, read_change(call.query, kept.model.op));
  finder::PlanQuestion question{.op = change.op,
                                .machine = kept.model.fingerprint,
                                .options = options_of(kept.model.fingerprint, change),
                                .may_transfer = false,
                                .is_stopped = call.is_stopped};
  finder::Kept of_runs = finder::kept_in_unnamed(store); // only the speed of the machine's runs, no other model
  of_runs.find_model = [](const auto&, const auto&) { return Error{ErrorCode::NotFound, "", ""}; };
  of_runs.list_models = [](const auto&, const auto&) { return std::vector<planner::CostModel>(); };
  auto found = finder::find_model({.given = {kept.model}, .kept = of_runs}, question);
  // Where the model does not fit the operator, the planner gives the best reason later.
  finder::FoundModel explored = found ? std::move(found).value() : finder::FoundModel{std::move(kept.model)};
  return Explored{change, std::move(question), std::move(explored)};
}

} // namespace

Result<Response> explore_model(Context& context, const Call& call) {
  MC2_ASSIGN(const auto explored,
             context.store.read([&](const store::Store& store) { return find_explored(store, call); }));
  const auto& [change, question, found] = explored;
  const planner::CostModel model = with_speeds(finder::as_it_is_now(found, change.op), change);
  MC2_ASSIGN(auto comparison, planner::compare_lengths(change.op, model, *question.options, call.is_stopped));
  for (planner::LengthChoice& choice : comparison.choices)
    choice.plan = finder::labelled(std::move(choice.plan), found, question);
  return to_response(change, comparison);
}

} // namespace mc2::server
