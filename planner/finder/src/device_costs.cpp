#include "mc2/finder/device_costs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/device_model.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/override.hpp"
#include "mc2/store/imported.hpp"

namespace mc2::finder {
namespace {

using planner::CostModel;
using planner::OpSpec;
using planner::Profile;
using store::Measurement;

/// Names of all machines that logs were imported for.
Result<std::set<std::string>> imported_devices(const Kept& kept) {
  std::set<std::string> names;
  MC2_ASSIGN(const auto profiles, kept.list_profiles({{"backend", "imported"}}));
  for (const auto& profile : profiles)
    if (const auto name = profile.fingerprint.field("device"); !name.empty()) names.emplace(name);
  return names;
}

/// The error for an operator that is unknown on this device: neither published nor imported.
Error unknown_costs(const std::string& device, const OpSpec& op, const std::optional<Kept>& kept, Error unpublished) {
  if (unpublished.code != ErrorCode::UnknownName || !kept) return unpublished;
  if (const auto cuts = kept->list_measured_cuts(device, op); cuts && !cuts.value().empty())
    return {ErrorCode::NotFound, "device",
            "'" + device + "' has " + std::to_string(cuts.value().size()) + " measured " +
                (cuts.value().size() == 1 ? "cut" : "cuts") +
                " but no profile to compare them with; import timings of its matmul and of " +
                std::string(to_string(planner::collective_of(op.kind))) + " (mc2 import)"};
  const auto imported = imported_devices(*kept);
  if (!imported) return imported.error();
  if (imported.value().contains(device)) return store::nothing_imported(op, device);
  if (!imported.value().empty()) unpublished.message += "; imported into the store: ";
  unpublished.message += list_text(imported.value());
  return unpublished;
}

/// An error about imported samples, with the device as its field: a question names no samples.
Error of_imported(const std::string& device, const Error& error) {
  if (error.field == "device") return error;
  return {error.code, "device", "the times imported for '" + device + "' give no costs: " + error.text()};
}

/// A model from imported samples alone, for a device without published figures.
Result<DeviceCosts> measured_costs(const std::string& device, const Profile& profile) {
  auto fitted = profiler::fit_cost_model(profile);
  if (!fitted) return of_imported(device, fitted.error());
  auto& [model, notes] = fitted.value();
  return DeviceCosts{.model = std::move(model), .notes = std::move(notes), .is_measured = true};
}

void note_source(const std::string& device, DeviceCosts& costs) {
  for (const auto& known : planner::published_devices()) {
    if (known.name != device || !planner::has_analytic_curve(costs.model)) continue;
    costs.notes.push_back("ANALYTIC: from " + std::string(known.source));
    costs.notes.push_back("confidence: " + std::string(known.confidence));
  }
}

/// The costs before measured cuts recalibrate them. Errors: as device_costs.
Result<DeviceCosts> costs_of_parts(const std::string& device, const OpSpec& op, const planner::PlanOptions& limits,
                                   const std::optional<Kept>& kept) {
  auto profiles = kept ? kept->list_profiles(store::imported_fields(device)) : std::vector<Profile>();
  MC2_ASSIGN(const auto imported, store::join_imported(device, std::move(profiles)));
  const Profile profile = imported.profile_for(op);
  auto published = planner::device_model(device, op);
  if (!published && profile.samples.empty()) return unknown_costs(device, op, kept, published.error());
  if (!published) {
    auto measured = measured_costs(device, profile);
    const bool is_of_others = !measured && published.error().code != ErrorCode::UnknownName; // of the same device
    return is_of_others ? Result<DeviceCosts>(published.error()) : std::move(measured);
  }
  auto overriding = profiler::override_model(std::move(published).value(), profile);
  if (!overriding) return of_imported(device, overriding.error());
  profiler::FitSummary& overridden = overriding.value();
  DeviceCosts costs{.model = std::move(overridden.model), .notes = {}};
  costs.is_measured = !profile.samples.empty();
  if (!imported.is_empty())
    for (const auto& [key, value] : imported.fingerprint.fields) costs.model.fingerprint.fields.try_emplace(key, value);
  note_source(device, costs);
  costs.notes.insert(costs.notes.end(), overridden.notes.begin(), overridden.notes.end());
  if (!limits.contention)
    costs.notes.push_back(
        "ASSUMED: no slow-down while the other lane is busy, which fits the published cases; the interval reaches the "
        "recipe's 1.15" +
        std::string(profiler::kUntilACutIsMeasured));
  return costs;
}

/// The cuts of the operator whose cut axis is nearest in length to that of `op`: of `op` itself if there are any.
std::vector<Measurement> nearest_cuts(std::vector<Measurement> all, const OpSpec& op) {
  if (all.empty()) return all;
  const auto distance = [&](const Measurement& one) { return planner::length_distance(one.op, op); };
  const auto nearest = std::ranges::min_element(all, {}, distance)->op;
  std::erase_if(all, [&](const Measurement& one) { return one.op != nearest; });
  return all;
}

std::string recalibration_text(const profiler::Refinement& refinement, std::ptrdiff_t cut_count, const OpSpec& measured,
                               const OpSpec& op) {
  if (cut_count == 0)
    return refinement.is_serial_measured ? "scaled to the measured serial time" : "not recalibrated: no cut is usable";
  return "recalibrated from " + std::to_string(cut_count) + " measured " + (cut_count == 1 ? "cut" : "cuts") +
         (measured == op ? "" : " of m=" + std::to_string(measured.m)) + "; mc2 refine shows what they change";
}

/// Recalibrates the model from cuts that were measured on the machine.
Result<void> learn_from_cuts(const std::vector<Measurement>& cuts, const OpSpec& op, const planner::PlanOptions& limits,
                             DeviceCosts& costs) {
  if (cuts.empty()) return {};
  std::vector<planner::MeasuredCut> measured;
  const planner::Variant& variant = costs.model.variants.front().variant;
  for (const auto& cut : cuts) {
    planner::MeasuredCut run = cut;
    run.variant = variant;
    // An earlier mc2 kept cuts without these checks.
    if (const auto fits = planner::validate_measured_cut(cut.op, run); !fits)
      costs.notes.push_back("a measured run is left out, which contradicts itself: it " + fits.error().message);
    else if (const auto alike = profiler::validate_uncut_times(cut.op, costs.model, run); !alike)
      costs.notes.push_back("the measured run of " + cut.cut.text() + " is left out: " + alike.error().message);
    else
      measured.push_back(run);
  }
  if (measured.empty()) return {};
  if (measured.size() > profiler::kMaxMeasuredCuts) // keep the newest, which come last
    measured.erase(measured.begin(), measured.end() - static_cast<std::ptrdiff_t>(profiler::kMaxMeasuredCuts));
  const OpSpec& measured_op = cuts.front().op;
  MC2_ASSIGN(auto refinement, profiler::refine(measured_op, costs.model, measured, {limits}));
  costs.model = refinement.model; // valid for the measured m only: for another m, other cuts may be nearer
  costs.model.op = measured_op;
  costs.is_measured = true;
  const auto believed = std::ranges::count(refinement.measured, true, &profiler::CutBelief::is_believed);
  if (believed > 0)
    std::erase_if(costs.notes, [](const std::string& note) { return note.ends_with(profiler::kUntilACutIsMeasured); });
  costs.notes.push_back(recalibration_text(refinement, believed, measured_op, op));
  if (const auto aside = std::ssize(refinement.measured) - believed; aside > 0)
    costs.notes.push_back(std::to_string(aside) + (aside == 1 ? " measured cut is" : " measured cuts are") +
                          " set aside, contradicted by the others or by the uncut parts; mc2 refine names them");
  if (measured_op == op) costs.refinement = std::move(refinement);
  return {};
}

} // namespace

Result<DeviceCosts> device_costs(const std::string& device, const OpSpec& op, const planner::PlanOptions& limits,
                                 const std::optional<Kept>& kept) {
  MC2_ASSIGN(auto costs, costs_of_parts(device, op, limits, kept));
  if (!kept) return costs;
  MC2_ASSIGN(auto cuts, kept->list_measured_cuts(device, op));
  MC2_TRY(learn_from_cuts(nearest_cuts(std::move(cuts), op), op, limits, costs));
  return costs;
}

namespace {

/// Answers with the best measured cut if the question leaves variant and options open, else with the model's plan.
PlanSource device_planner(DeviceCosts costs) {
  const std::string name = "costs of " + costs.model.fingerprint.label();
  PlanSource by_model = own_planner({.given = {costs.model}});
  return {name, [costs = std::move(costs), by_model, name](const PlanQuestion& question) -> Result<FoundPlan> {
            const auto& known = costs.refinement;
            const bool is_open =
                question.unusual_options().empty() && !question.variant && question.op == costs.model.op;
            if (!is_open || !known || !known->has_usable_cut()) return by_model.find(question);
            return FoundPlan{unkept(known->plan), name + ", the best measured cut", Origin::Model};
          }};
}

/// The answers of a function by key: each key is asked once.
template <typename Key, typename Answer>
class Remembered {
 public:
  template <typename Ask>
  Answer get(const Key& key, const Ask& ask) {
    const auto known = answers_.find(key);
    return known != answers_.end() ? known->second : answers_.emplace(key, ask()).first->second;
  }

 private:
  std::map<Key, Answer> answers_;
};

/// The same stores, but each list is read once.
Kept reading_once(Kept kept) {
  using Fields = std::map<std::string, std::string>;
  auto profiles = std::make_shared<Remembered<Fields, Result<std::vector<Profile>>>>();
  kept.list_profiles = [profiles, list = kept.list_profiles](const Fields& fields) {
    return profiles->get(fields, [&] { return list(fields); });
  };
  auto cuts = std::make_shared<Remembered<std::pair<std::string, OpSpec>, Result<std::vector<Measurement>>>>();
  kept.list_measured_cuts = [cuts, list = kept.list_measured_cuts](const std::string& device, const OpSpec& op) {
    return cuts->get({device, planner::of_any_length(op)}, [&] { return list(device, op); });
  };
  return kept;
}

/// The operator whose measured cuts recalibrate the model for `op`; none if no cut was measured.
std::optional<OpSpec> nearest_measured(const std::optional<Kept>& kept, const std::string& device, const OpSpec& op) {
  if (!kept) return std::nullopt;
  const auto cuts = kept->list_measured_cuts(device, op);
  if (!cuts || cuts.value().empty()) return std::nullopt;
  return nearest_cuts(cuts.value(), op).front().op;
}

} // namespace

std::vector<PlanSource> device_places(DeviceCosts costs, const std::optional<Kept>& kept) {
  std::vector<PlanSource> places;
  if (kept) places.push_back(kept_plans(*kept));
  places.push_back(device_planner(std::move(costs)));
  return places;
}

FindModel finding_on_device(std::string device, planner::PlanOptions limits, std::optional<Kept> kept) {
  if (kept) kept = reading_once(*std::move(kept));
  const auto make = [device, limits = std::move(limits), kept](const OpSpec& op) -> Result<CostModel> {
    MC2_ASSIGN(auto costs, device_costs(device, op, limits, kept));
    return std::move(costs.model);
  };
  // A model that was recalibrated by cuts answers only where those cuts are the nearest.
  const auto answers = [device, kept](const CostModel& model, const OpSpec& op) {
    const auto measured = nearest_measured(kept, device, op);
    return !measured || model.op == *measured;
  };
  return finding_each(make, answers);
}

} // namespace mc2::finder
