#pragma once

#include <algorithm>
#include <cstdint>
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

/// What one or more stores have kept, as the finder asks for it. Threads: as whoever made it says.
struct Kept {
  std::function<Result<store::StoredPlan>(const store::PlanKey&)> find_plan;
  std::function<Result<planner::CostModel>(const planner::OpSpec&, const planner::Fingerprint&)> find_model;
  std::function<std::vector<planner::CostModel>(const planner::OpSpec&, const planner::Fingerprint&)> list_models;
  /// As store::Store::has_run; false where it cannot be read.
  std::function<bool(const planner::OpSpec&, const planner::Fingerprint&)> has_run;
  /// As store::Store::speed_record; empty where it cannot be read.
  std::function<planner::SpeedRecord(const planner::OpSpec&, const planner::Fingerprint&)> speed_record;
  /// As store::Store::list_profiles.
  std::function<Result<std::vector<planner::Profile>>(const std::map<std::string, std::string>&)> list_profiles = {};
  /// As store::list_measured_cuts.
  std::function<Result<std::vector<store::Measurement>>(const std::string& device, const planner::OpSpec&)>
      list_measured_cuts = {};
};

/// What was read; empty where nothing could be.
template <typename T>
[[nodiscard]] T or_empty(Result<T> read) {
  return read ? std::move(read).value() : T();
}
template <typename T>
[[nodiscard]] T or_empty(T read) {
  return read;
}

/// Of whatever store or layers `ask` has.
/// @param ask  runs a body on its const store::Store& or store::Layers& and returns what the body does; is copied, and
///             called each time that something is asked, so that errors, lifetime and threads are as it has them
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

/// The layers must outlive it. Threads: may be asked by several at once.
[[nodiscard]] Kept kept_in(SharedLayers& layers);
/// For those who serve others: its errors do not name the store's file. The store must outlive it. Threads: as the
/// store.
[[nodiscard]] Kept kept_in_unnamed(const store::Store& store);

/// Where models come from, in this order.
struct ModelPlaces {
  std::vector<planner::CostModel> given; ///< answer on their own machine
  std::optional<Kept> kept = std::nullopt;
};

/// A model that answers a question.
struct FoundModel {
  planner::CostModel model;
  /// Where it was measured for another n and k: its plans are marked with it.
  std::optional<planner::Transfer> transfer = std::nullopt;
  /// How far off the machine's earlier predictions were; its plans are less sure by that. 0 of the uncut parts where
  /// they were timed.
  planner::SpeedSpread spread = {};
  bool has_later_runs = true; ///< whether any run has told how far off predictions of this machine are
  /// How fast the operator's later runs were; its plans are as fast. The model itself is as it was profiled.
  planner::SpeedLevel level = {};
  /// What all of the machine's models say of messages as long as the operator's.
  planner::MessageTimes messages = {};
  bool is_at_speed = false; ///< by PlanQuestion::time_uncut: the uncut parts take what was timed just now
};

/// Why no model of another n and k answers the question: "; ..."; empty where there is none, or where one does.
[[nodiscard]] std::string why_not_transferred(const ModelPlaces& places, const PlanQuestion& question);

/// The model of the question's operator and machine: a given one, else the kept one, else the nearest of another n and
/// k (planner/transfer.hpp) unless the question rules that out; of the question's variant alone where it names one. A
/// model that cannot be read is passed over. At the speed that the machine has now where the question has the uncut
/// parts timed.
/// Errors: NotFound, with every reason in one line, also where no model knows the variant; the kept one's code where it
/// could not be read.
[[nodiscard]] Result<FoundModel> find_model(const ModelPlaces& places, const PlanQuestion& question);

/// Whether both are of the same measurements. Of questions that differ in m alone, each model answers for the m between
/// two bounds.
[[nodiscard]] bool is_same_answer(const FoundModel& one, const FoundModel& other);

/// The last of `first`, `first` + 1, ... `last` for which `holds`, which holds for the first and, once it does not, no
/// more.
template <typename Holds>
[[nodiscard]] std::int64_t last_where(std::int64_t first, std::int64_t last, const Holds& holds) {
  if (first >= last || holds(last)) return std::max(first, last);
  while (last - first > 1) {
    const std::int64_t middle = first + (last - first) / 2;
    (holds(middle) ? first : last) = middle;
  }
  return first;
}

/// The model for one length of the cut axis (planner::at_length()), as fast and as unsure as later runs say.
[[nodiscard]] planner::CostModel as_it_is_now(const FoundModel& found, const planner::OpSpec& op);

/// What is told of a plan by that model besides what was predicted: what the model was made from, and how far off
/// earlier predictions were.
[[nodiscard]] planner::Plan labelled(planner::Plan plan, const FoundModel& found, const PlanQuestion& question);

/// The question's options, or the machine's.
[[nodiscard]] planner::PlanOptions options_of(const PlanQuestion& question);

/// The plan that a model gives, marked where the model was measured for another operator.
/// Errors: as planner::make_plan.
[[nodiscard]] Result<planner::Plan> plan_with(const FoundModel& found, const PlanQuestion& question);

/// The same for blocks that somebody chose. Errors: as planner::predict_cut.
[[nodiscard]] Result<planner::Plan> predict_with(const FoundModel& found, const PlanQuestion& question,
                                                 const planner::Cut& cut);

/// Serial by one variant, whose uncut parts it tells. Errors: as planner::serial_plan.
[[nodiscard]] Result<planner::Plan> predict_uncut_with(const FoundModel& found, const planner::OpSpec& op,
                                                       const planner::Variant& variant,
                                                       const planner::RowCounts& counts = {});

/// A plan that was raced where there was no model, with what the model predicts for it. Errors: as predict_with and
/// predict_uncut_with.
[[nodiscard]] Result<planner::Plan> with_prediction(planner::Plan raced, const FoundModel& found,
                                                    const PlanQuestion& question);

/// "by its last 3 runs: compute 1.12x, communication 0.99x the profiled time".
[[nodiscard]] std::string level_text(const planner::SpeedLevel& level);

/// Losing more than this is worth tuning again.
inline constexpr double kStaleLoss = 0.02;

/// What a kept plan is predicted to lose to another cut of its options at the speed that its operator's later runs had.
/// None where it has not run since it was profiled, its own model is not at hand, or the loss is at most kStaleLoss.
/// Plans anew where it has run, which takes milliseconds.
/// @param options  that the plan was tuned with; unset: the machine's
[[nodiscard]] std::optional<store::Staleness> staleness_of(const Kept& kept, const planner::Plan& plan,
                                                           const std::optional<planner::PlanOptions>& options = {},
                                                           const planner::StopCheck& is_stopped = nullptr);

} // namespace mc2::finder

#pragma GCC visibility pop
