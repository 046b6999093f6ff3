#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mc2/finder/question.hpp"
#include "mc2/finder/shared_layers.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/speed_spread.hpp"
#include "mc2/planner/transfer.hpp"
#include "mc2/store/answer.hpp"
#include "mc2/store/imported.hpp"
#include "mc2/store/store.hpp"

#pragma GCC visibility push(default)

namespace mc2::finder {

/// What the finder may ask one or more stores for. Threads: as the function that made the value says.
struct Kept {
  std::function<Result<store::StoredPlan>(const store::PlanKey&)> find_plan;
  std::function<Result<planner::CostModel>(const planner::OpSpec&, const planner::Fingerprint&)> find_model;
  std::function<std::vector<planner::CostModel>(const planner::OpSpec&, const planner::Fingerprint&)> list_models;
  /// As store::Store::has_run; false if the store cannot be read.
  std::function<bool(const planner::OpSpec&, const planner::Fingerprint&)> has_run;
  /// As store::Store::speed_record; empty if the store cannot be read.
  std::function<planner::SpeedRecord(const planner::OpSpec&, const planner::Fingerprint&)> speed_record;
  /// As store::Store::list_profiles.
  std::function<Result<std::vector<planner::Profile>>(const std::map<std::string, std::string>&)> list_profiles = {};
  /// As store::list_measured_cuts.
  std::function<Result<std::vector<store::Measurement>>(const std::string& device, const planner::OpSpec&)>
      list_measured_cuts = {};
};

/// The value that was read; an empty one if reading failed.
template <typename T>
[[nodiscard]] T or_empty(Result<T> read) {
  return read ? std::move(read).value() : T();
}
template <typename T>
[[nodiscard]] T or_empty(T read) {
  return read;
}

/// What the store or layers behind `ask` have kept.
/// @param ask  calls a body with its const store::Store& or store::Layers& and returns the body's result. It is copied
///             and called at each use of the Kept, so it determines errors, lifetime and threads
template <typename Ask>
[[nodiscard]] Kept kept_by(const Ask& ask) {
  using planner::Fingerprint;
  using planner::OpSpec;
  return {
      .find_plan =
          [ask](const store::PlanKey& key) { return ask([&](const auto& stores) { return stores.find_plan(key); }); },
      .find_model =
          [ask](const OpSpec& op, const Fingerprint& machine) {
            return ask([&](const auto& stores) { return stores.find_model(op, machine); });
          },
      .list_models =
          [ask](const OpSpec& op, const Fingerprint& machine) {
            return or_empty(ask([&](const auto& stores) { return stores.list_models(op, machine); }));
          },
      .has_run =
          [ask](const OpSpec& op, const Fingerprint& machine) {
            return or_empty(ask([&](const auto& stores) { return stores.has_run(op, machine); }));
          },
      .speed_record =
          [ask](const OpSpec& op, const Fingerprint& machine) {
            return or_empty(ask([&](const auto& stores) { return stores.speed_record(op, machine); }));
          },
      .list_profiles =
          [ask](const std::map<std::string, std::string>& fields) {
            return ask([&](const auto& stores) { return stores.list_profiles(fields); });
          },
      .list_measured_cuts =
          [ask](const std::string& device, const OpSpec& op) {
            return ask([&](const auto& stores) {
              if constexpr (requires { stores.list_measured_cuts(device, op); })
                return stores.list_measured_cuts(device, op);
              else
                return store::list_measured_cuts(stores, device, op);
            });
          }};
}

/// What the layers have kept. The layers must outlive the result. Threads: safe to share.
[[nodiscard]] Kept kept_in(SharedLayers& layers);
/// What the store has kept, for programs that serve others: errors do not name the store's file. The store must outlive
/// the result. Threads: as the store.
[[nodiscard]] Kept kept_in_unnamed(const store::Store& store);

/// What is kept, but where it has no model, the reason names neither the store's file nor what else it has. For
/// documents that give such reasons for many operators, and depend on one machine only. Threads: as `kept`.
[[nodiscard]] Kept with_short_reasons(Kept kept);

/// Where models come from, in this order.
struct ModelPlaces {
  std::vector<planner::CostModel> given; ///< each answers only questions about its own machine
  std::optional<Kept> kept = std::nullopt;
};

/// A model that answers a question.
struct FoundModel {
  planner::CostModel model;
  /// Set if the model was measured for another n and k. Its plans are then marked as transferred.
  std::optional<planner::Transfer> transfer = std::nullopt;
  /// How far off earlier predictions for this machine were, newest first. It widens the intervals of the plans; if the
  /// uncut parts were timed now, by the spread of the overlap only. Unset: not looked up, so that nothing is widened.
  std::optional<std::vector<planner::SpeedRatio>> ratios = std::nullopt;
  /// The speeds of the operator's later runs, which plans assume. `model` itself has the speed of its profile.
  std::vector<planner::RunSpeed> run_speeds = {};
  /// What the uncut collectives took in all models of the machine, by message size.
  planner::MessageTimes messages = {};
  bool is_at_speed = false; ///< the model has the speed that PlanQuestion::time_lanes has just measured
};

/// Why no model of another n and k answers the question, as "; ...". Empty if there is no such model or one answers.
[[nodiscard]] std::string why_not_transferred(const ModelPlaces& places, const PlanQuestion& question);

/// The model for the question's operator and machine: a given model, else the kept one, else the nearest model of
/// another n and k (planner/transfer.hpp) unless the question rules out transfer. A kept model that cannot be read is
/// passed over. If the question names a variant, the model has that variant alone. If the question has `time_lanes`,
/// the model has the speed that the machine has now.
/// Errors: NotFound, with every reason in one line, if there is no model, or if the model lacks the variant; the code
/// of the read error instead if the kept model could not be read; those of `time_lanes` and planner::at_speed.
[[nodiscard]] Result<FoundModel> find_model(const ModelPlaces& places, const PlanQuestion& question);

/// find_model() in these layers alone. Nobody else may use them meanwhile.
[[nodiscard]] Result<FoundModel> find_model(store::Layers& layers, const PlanQuestion& question);

/// The model that the caller gives, as find_model() finds it without other places. So it gets the spread of a machine
/// of which no runs are known. Sets the question's machine to the model's. Errors: as find_model; without transfer, a
/// model of another operator is given back, and the planner refuses it.
[[nodiscard]] Result<FoundModel> found_given(planner::CostModel model, PlanQuestion& question);

/// Whether both come from the same measurements. Among questions that differ in m alone, the m that get the same answer
/// lie between two bounds, without holes.
[[nodiscard]] bool is_same_answer(const FoundModel& one, const FoundModel& other);

/// The speed that plans of the operator assume (planner::speed_level()); without factors if it has just been measured.
[[nodiscard]] planner::SpeedLevel level_at(const FoundModel& found, const planner::OpSpec& op);

/// The model for the operator's length of the cut axis (planner::at_length()), with speed and spread of later runs.
[[nodiscard]] planner::CostModel as_it_is_now(const FoundModel& found, const planner::OpSpec& op);

/// The plan with what its prediction does not say by itself: what the model was made from, at which speed, and an
/// interval widened for blocks of sizes that were not measured.
[[nodiscard]] planner::Plan labelled(planner::Plan plan, const FoundModel& found, const PlanQuestion& question);

/// The question's options; if it has none, the machine's defaults (planner::default_options_on).
[[nodiscard]] planner::PlanOptions options_of(const PlanQuestion& question);

/// The plan that the model gives, labelled (see labelled()).
/// Errors: as planner::make_plan.
[[nodiscard]] Result<planner::Plan> plan_with(const FoundModel& found, const PlanQuestion& question);

/// What the model predicts for a cut that the caller chose, labelled (see labelled()). Errors: as planner::predict_cut.
[[nodiscard]] Result<planner::Plan> predict_with(const FoundModel& found, const PlanQuestion& question,
                                                 const planner::Cut& cut);

/// The plan that a given model gives, or what it predicts for a cut: found_given(), then plan_with() or predict_with().
/// Errors: of both.
[[nodiscard]] Result<planner::Plan> plan_given(planner::CostModel model, PlanQuestion question);
[[nodiscard]] Result<planner::Plan> predict_given(planner::CostModel model, PlanQuestion question,
                                                  const planner::Cut& cut);

/// predict_with() as `mc2 plan --anchor` makes it, at uncut times that were measured earlier. They take the place of
/// question.time_lanes, and their variant that of question.variant. Errors: as find_model and predict_with.
[[nodiscard]] Result<planner::Plan> predict_at(const planner::TimedLanes& times, const ModelPlaces& places,
                                               PlanQuestion question, const planner::Cut& cut);

/// The serial plan by one variant, with the predicted times of its uncut parts. Errors: as planner::serial_plan.
[[nodiscard]] Result<planner::Plan> predict_uncut_with(const FoundModel& found, const planner::OpSpec& op,
                                                       const planner::Variant& variant,
                                                       const planner::RowCounts& counts = {});

/// A plan that was raced before there was a model, with the predictions of the model `found`. Strategy, reason and
/// validation stay those of the race. Errors: as predict_with and predict_uncut_with.
[[nodiscard]] Result<planner::Plan> with_prediction(planner::Plan raced, const FoundModel& found,
                                                    const PlanQuestion& question);

/// The level in words: "by its last 3 runs: compute 1.12x, communication 0.99x the profiled time".
[[nodiscard]] std::string level_text(const planner::SpeedLevel& level);

/// A kept plan that loses more than this is worth tuning again.
inline constexpr double kStaleLoss = 0.02;

/// How much longer a kept plan is predicted to take than the best cut under the same options, at the speed of the
/// operator's later runs. None if the operator has not run since it was profiled, if the plan's own model is not at
/// hand, or if the loss is at most kStaleLoss. Makes a new plan if the operator has run, which takes milliseconds.
/// @param options  the options that the plan was tuned with; unset: the machine's defaults
[[nodiscard]] std::optional<store::Staleness> staleness_of(const Kept& kept, const planner::Plan& plan,
                                                           const std::optional<planner::PlanOptions>& options = {},
                                                           const planner::StopCheck& is_stopped = nullptr);
/// The same by a model that was found for the question, whether or not the operator has run.
[[nodiscard]] std::optional<store::Staleness> staleness_by(const FoundModel& found, const planner::Plan& plan,
                                                           const PlanQuestion& question);

} // namespace mc2::finder

#pragma GCC visibility pop
