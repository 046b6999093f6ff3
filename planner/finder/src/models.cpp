#include "mc2/finder/models.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::finder {
namespace {

using planner::CostModel;
using planner::OpSpec;

/// The same result, but an error loses its field, which names the store's file.
template <typename T>
Result<T> unnamed(Result<T> found) {
  if (found) return found;
  return Error{found.error().code, "", found.error().message};
}

/// Of the given models that answer, the one of the nearest length, as store::Store::find_model has it.
Result<CostModel> find_own(const ModelPlaces& places, const PlanQuestion& question) {
  const CostModel* nearest = nullptr;
  double least = 0;
  for (const CostModel& model : places.given) {
    if (model.fingerprint != question.machine || !planner::has_same_block_costs(model.op, question.op)) continue;
    const double distance = planner::length_distance(model.op, question.op);
    if (nearest == nullptr || distance < least) nearest = &model, least = distance;
  }
  if (nearest != nullptr) return *nearest;
  if (places.kept) return places.kept->find_model(question.op, question.machine);
  return Error{ErrorCode::NotFound, "", "no model of " + question.op.text()};
}

/// The given and kept models of the question's machine. Of several of one operator, the first counts: given models
/// hide kept ones, and a store hides those below it.
std::vector<CostModel> neighbours(const ModelPlaces& places, const PlanQuestion& question) {
  std::vector<CostModel> near;
  for (const CostModel& model : places.given)
    if (model.fingerprint == question.machine) near.push_back(model);
  if (places.kept) {
    auto kept = places.kept->list_models(question.op, question.machine);
    near.insert(near.end(), std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end()));
  }
  std::set<OpSpec> seen;
  std::erase_if(near, [&](const CostModel& model) { return !seen.insert(model.op).second; });
  return near;
}

/// Errors: NotFound; with an empty message if there is no model of another n and k.
Result<planner::Transfer> transferred(const std::vector<CostModel>& near, const PlanQuestion& question) {
  const auto refused = [](const std::string& why) { return Error{ErrorCode::NotFound, "", why}; };
  if (near.empty()) return refused("");
  if (!question.may_transfer) return refused("; a model of another n and k might answer, but transfer is ruled out");
  auto transfer = planner::transfer_from_nearest(near, question.op, question.machine);
  if (transfer) return transfer;
  return refused("; none of another n and k answers for it: " + transfer.error().text());
}

Result<FoundModel> find_any(const ModelPlaces& places, const PlanQuestion& question) {
  auto own = find_own(places, question);
  if (own) {
    FoundModel found{std::move(own).value()};
    found.messages = planner::message_times(neighbours(places, question), found.model.op);
    return found;
  }
  if (own.error().code == ErrorCode::InvalidSpec) return own.error();
  const auto refused = [&](const std::string& why) {
    return Error{own.error().code, own.error().field, own.error().message + why};
  };
  const auto near = neighbours(places, question);
  auto transfer = transferred(near, question);
  if (!transfer) return refused(transfer.error().message);
  auto messages = planner::message_times(near, transfer.value().source);
  CostModel model = transfer.value().model;
  return FoundModel{
      .model = std::move(model), .transfer = std::move(transfer).value(), .messages = std::move(messages)};
}

} // namespace

Kept kept_in(SharedLayers& layers) {
  return kept_by([&layers](const auto& body) { return layers.use(body); });
}

Kept kept_in_unnamed(const store::Store& store) {
  return kept_by([&store](const auto& body) { return unnamed(body(store)); });
}

Kept with_short_reasons(Kept kept) {
  kept.find_model = [find = kept.find_model](const OpSpec& op, const planner::Fingerprint& machine) {
    auto found = find(op, machine);
    if (found) return found;
    Error refused = found.error();
    if (refused.code == ErrorCode::NotFound)
      refused = {ErrorCode::NotFound, "", "the store has no cost model for " + op.text() + " on this machine"};
    refused.message.resize(std::min(refused.message.size(), refused.message.find("; ")));
    return Result<CostModel>(std::move(refused));
  };
  return kept;
}

std::string why_not_transferred(const ModelPlaces& places, const PlanQuestion& question) {
  const auto transfer = transferred(neighbours(places, question), question);
  return transfer ? "" : transfer.error().message;
}

Result<FoundModel> find_model(const ModelPlaces& places, const PlanQuestion& question) {
  auto found = find_any(places, question);
  if (!found) return found;
  CostModel& model = found.value().model;
  const planner::MessageTimes& messages = found.value().messages;
  if (question.variant) {
    MC2_ASSIGN(model, planner::restricted_to(*question.variant, std::move(model)));
  }
  auto record = places.kept ? places.kept->speed_record(question.op, question.machine) : planner::SpeedRecord();
  found.value().ratios = std::move(record.ratios);
  if (!question.time_lanes) {
    found.value().run_speeds = planner::run_speeds(model, messages, record.runs);
    return found;
  }
  MC2_ASSIGN(const auto now, question.time_lanes(model));
  MC2_ASSIGN(model, planner::at_speed(planner::at_length(model, messages, question.op), question.op, now));
  found.value().is_at_speed = true;
  return found;
}

Result<FoundModel> find_model(store::Layers& layers, const PlanQuestion& question) {
  SharedLayers shared(layers);
  return find_model({.given = {}, .kept = kept_in(shared)}, question);
}

Result<FoundModel> found_given(CostModel model, PlanQuestion& question) {
  question.machine = model.fingerprint;
  auto found = find_model({.given = {model}}, question);
  // Where the model is of another operator, the planner gives the best reason later.
  const bool is_of_another = !planner::has_same_block_costs(model.op, question.op);
  return is_of_another && !question.may_transfer ? FoundModel{std::move(model)} : std::move(found);
}

bool is_same_answer(const FoundModel& one, const FoundModel& other) {
  if (one.transfer.has_value() != other.transfer.has_value()) return false;
  return one.transfer ? one.transfer->source == other.transfer->source : one.model.op == other.model.op;
}

std::string level_text(const planner::SpeedLevel& level) {
  const std::string runs = level.run_count == 1 ? "last run" : "last " + std::to_string(level.run_count) + " runs";
  const auto times = [](double factor) { return number(factor, "%.2f") + "x"; };
  return "by its " + runs + ": compute " + times(level.compute) + ", communication " + times(level.communication) +
         " the profiled time";
}

planner::SpeedLevel level_at(const FoundModel& found, const OpSpec& op) {
  return planner::speed_level(found.run_speeds, op);
}

CostModel as_it_is_now(const FoundModel& found, const OpSpec& op) {
  CostModel model = found.is_at_speed ? found.model : planner::at_length(found.model, found.messages, op);
  planner::SpeedSpread spread;
  if (found.ratios) {
    const auto uncut = planner::predict_cut(op, model, planner::uncut(op));
    spread = planner::speed_spread(*found.ratios, uncut ? uncut.value().serial_us : 0);
  }
  if (found.is_at_speed) spread.compute = spread.communication = spread.makespan = 0;
  // Apply the level after at_length(): its message times were profiled, at the speed of that time.
  return planner::with_spread(planner::with_level(std::move(model), level_at(found, op)), spread);
}

planner::Plan labelled(planner::Plan plan, const FoundModel& found, const PlanQuestion& question) {
  if (found.transfer) plan = planner::as_transferred(std::move(plan), *found.transfer); // replaces the reason: first
  const bool is_of_one_session = found.ratios && found.ratios->empty() && !question.time_lanes;
  if (is_of_one_session && plan.makespan.provenance != planner::Provenance::Analytic)
    plan.makespan.reason += "; samples of one session: this machine's changes of speed are unknown";
  if (plan.overlaps()) { // races of cuts say nothing of uncut runs
    const auto options = options_of(question);
    const auto intervals = options.has_assumptions()
                               ? planner::race_intervals(planner::assume(found.model, options).model, plan)
                               : planner::race_intervals(found.model, plan);
    plan = planner::with_race_intervals(intervals, std::move(plan));
  }
  if (question.time_lanes) {
    plan.makespan.reason += "; at the speed that the lanes have now";
  } else if (const auto level = level_at(found, plan.op); level.run_count > 0) {
    plan.makespan.reason += "; " + level_text(level);
  }
  return plan;
}

planner::PlanOptions options_of(const PlanQuestion& question) {
  return question.options.value_or(planner::default_options_on(question.machine));
}

Result<planner::Plan> plan_with(const FoundModel& found, const PlanQuestion& question) {
  MC2_ASSIGN(auto plan, planner::make_plan(question.op, as_it_is_now(found, question.op), options_of(question),
                                           question.is_stopped));
  return labelled(std::move(plan), found, question);
}

Result<planner::Plan> predict_with(const FoundModel& found, const PlanQuestion& question, const planner::Cut& cut) {
  const planner::PlanOptions options = options_of(question);
  const auto assumed = planner::assume(as_it_is_now(found, question.op), options);
  MC2_ASSIGN(auto plan, planner::predict_cut(question.op, assumed.model, cut, options.counts));
  plan.block_overhead_us = options.block_overhead_us;
  if (options.has_assumptions()) plan.reason += "; " + planner::assumptions_text(options, plan);
  return labelled(std::move(plan), found, question);
}

Result<planner::Plan> plan_given(CostModel model, PlanQuestion question) {
  MC2_ASSIGN(const auto found, found_given(std::move(model), question));
  return plan_with(found, question);
}

Result<planner::Plan> predict_given(CostModel model, PlanQuestion question, const planner::Cut& cut) {
  MC2_ASSIGN(const auto found, found_given(std::move(model), question));
  return predict_with(found, question, cut);
}

Result<planner::Plan> predict_at(const planner::TimedLanes& times, const ModelPlaces& places, PlanQuestion question,
                                 const planner::Cut& cut) {
  question.variant = planner::parse_variant(times.variant);
  question.time_lanes = [&](const CostModel&) { return std::vector{times}; };
  MC2_ASSIGN(const auto found, find_model(places, question));
  return predict_with(found, question, cut);
}

Result<planner::Plan> predict_uncut_with(const FoundModel& found, const OpSpec& op, const planner::Variant& variant,
                                         const planner::RowCounts& counts) {
  return planner::serial_plan(op, as_it_is_now(found, op), variant, counts);
}

Result<planner::Plan> with_prediction(planner::Plan raced, const FoundModel& found, const PlanQuestion& question) {
  const auto predict = [&]() -> Result<planner::Plan> {
    if (raced.overlaps()) return predict_with(found, question, raced.cut);
    MC2_ASSIGN(auto uncut, predict_uncut_with(found, raced.op, raced.variant, options_of(question).counts));
    return labelled(std::move(uncut), found, question);
  };
  MC2_ASSIGN(planner::Plan plan, predict());
  plan.strategy = raced.strategy;
  plan.reason = std::move(raced.reason);
  plan.validation = raced.validation;
  return plan;
}

namespace {

/// A lane whose time changed by at most this ratio does not explain a loss above kStaleLoss.
constexpr double kSameSpeed = 0.05;

/// Why the model now prefers another plan to the kept one.
std::string why_stale(const planner::Plan& kept, const planner::Plan& best, const FoundModel& found) {
  if (found.is_at_speed) return "at the speed that the lanes have now";
  const planner::SpeedLevel level = level_at(found, kept.op);
  const auto has_moved = [](double factor) { return std::abs(std::log(factor)) > std::log1p(kSameSpeed); };
  if (has_moved(level.compute) || has_moved(level.communication)) return level_text(level);
  const bool is_raced = !best.overlaps() || std::ranges::any_of(kept.runners_up, [&](const planner::RunnerUp& other) {
    return planner::is_same_choice(other, best);
  });
  const std::string race = !kept.validation ? "it was not raced"
                           : is_raced       ? "its race contradicts what the model predicts now"
                                            : "its race left out the cut that the model prefers now";
  return race + ", and the machine is as fast as it was then (" + level_text(level) + ")";
}

} // namespace

std::optional<store::Staleness> staleness_of(const Kept& kept, const planner::Plan& plan,
                                             const std::optional<planner::PlanOptions>& options,
                                             const planner::StopCheck& is_stopped) {
  if (!kept.has_run(plan.op, plan.fingerprint)) return std::nullopt;
  const PlanQuestion question{
      .op = plan.op, .machine = plan.fingerprint, .options = options, .may_transfer = false, .is_stopped = is_stopped};
  const auto found = find_model({.given = {}, .kept = kept}, question);
  if (!found || found.value().run_speeds.empty()) return std::nullopt;
  return staleness_by(found.value(), plan, question);
}

std::optional<store::Staleness> staleness_by(const FoundModel& found, const planner::Plan& plan,
                                             const PlanQuestion& question) {
  const CostModel now = planner::assume(as_it_is_now(found, plan.op), options_of(question)).model;
  const auto best = plan_with(found, question);
  const auto still = plan.overlaps() ? planner::predict_cut(plan.op, now, plan.variant, plan.cut)
                                     : predict_uncut_with(found, plan.op, plan.variant);
  if (!best || !still) return std::nullopt;
  const double loss = still.value().makespan.us / best.value().makespan.us - 1;
  if (!(loss > kStaleLoss) || !std::isfinite(loss)) return std::nullopt;
  return store::Staleness{loss, best.value().cut.text(), best.value().variant.text(),
                          why_stale(plan, best.value(), found)};
}

} // namespace mc2::finder
