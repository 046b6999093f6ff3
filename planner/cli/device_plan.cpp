#include "device_plan.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "imported.hpp"
#include "mc2/planner/device_model.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/override.hpp"

namespace mc2::cli {
namespace {

bool has_analytic_curve(const planner::CostModel& model) {
  return std::any_of(model.variants.begin(), model.variants.end(), [](const auto& variant) {
    return variant.compute.curve.is_analytic || variant.communication.curve.is_analytic;
  });
}

/// Why nothing is known of the operator on a device that nothing is published of either.
Error unknown_costs(const std::string& device, const planner::OpSpec& op, const store::Layers* layers,
                    Error unpublished) {
  if (unpublished.code != ErrorCode::UnknownName || layers == nullptr) return unpublished;
  std::set<std::string> imported;
  for (const auto& profile : layers->list_profiles({{"backend", "imported"}}))
    if (const auto name = profile.fingerprint.fields.find("device"); name != profile.fingerprint.fields.end())
      imported.insert(name->second);
  if (imported.contains(device)) return nothing_imported(op, device);
  if (!imported.empty()) unpublished.message += "; imported into the store:";
  for (const auto& name : imported) unpublished.message += (name == *imported.begin() ? " " : ", ") + name;
  return unpublished;
}

/// A model of samples alone, for a device that nothing is published of.
Result<DeviceCosts> measured_costs(const planner::Profile& profile) {
  MC2_ASSIGN(auto fitted, profiler::fit_cost_model(profile));
  return DeviceCosts{std::move(fitted.model), false, std::move(fitted.notes), {}, {}};
}

} // namespace

namespace {

/// What was measured of the operator itself, else of the m nearest to its own.
std::vector<store::Measurement> nearest_cuts(std::vector<store::Measurement> all, const planner::OpSpec& op) {
  if (all.empty()) return all;
  const auto length = [](const planner::OpSpec& one) { return planner::traits_of(one.kind).cut_axis_length(one); };
  const auto distance = [&](const store::Measurement& one) {
    return std::abs(std::log(static_cast<double>(length(one.op)) / static_cast<double>(length(op))));
  };
  const auto nearest = std::ranges::min_element(all, {}, distance)->op;
  std::erase_if(all, [&](const store::Measurement& one) { return one.op != nearest; });
  return all;
}

/// Recalibrates the model from cuts that were measured on the machine.
Result<void> learn_from_cuts(const std::vector<store::Measurement>& cuts, const planner::OpSpec& op,
                             const planner::PlanOptions& limits, DeviceCosts& costs) {
  if (cuts.empty()) return {};
  std::vector<profiler::MeasuredCut> measured;
  for (const auto& cut : cuts)
    measured.push_back({costs.model.variants.front().variant, cut.cut, cut.fused_us, cut.serial_us, cut.compute_us,
                        cut.communication_us, cut.relative_error, std::max(cut.pair_count, 1)});
  if (measured.size() > profiler::kMaxMeasuredCuts) // the newest
    measured.erase(measured.begin(), measured.end() - static_cast<std::ptrdiff_t>(profiler::kMaxMeasuredCuts));
  const planner::OpSpec& measured_op = cuts.front().op;
  MC2_ASSIGN(auto refinement, profiler::refine(measured_op, costs.model, measured, {limits}));
  const planner::OpSpec asked = costs.model.op;
  costs.model = refinement.model;
  costs.model.op = asked;
  if (refinement.measured.empty())
    costs.recalibration = "at the speed of serial as it was measured";
  else
    costs.recalibration = "recalibrated from " + std::to_string(refinement.measured.size()) + " measured " +
                          (refinement.measured.size() == 1 ? "cut" : "cuts") +
                          (measured_op == op ? "" : " of m=" + std::to_string(measured_op.m)) +
                          "; mc2 refine says what they tell";
  if (measured_op == op) costs.refinement = std::move(refinement);
  return {};
}

/// Before any cut. @param layers  null: there is no store, and so nothing imported
Result<DeviceCosts> costs_of_parts(const std::string& device, const planner::OpSpec& op, const store::Layers* layers) {
  MC2_ASSIGN(const auto imported, layers ? find_imported(*layers, device) : store::join_imported(device, {}));
  const planner::Profile profile = imported.profile_for(op);
  auto published = planner::device_model(device, op);
  if (!published && profile.samples.empty()) return unknown_costs(device, op, layers, published.error());
  if (!published) return measured_costs(profile);
  MC2_ASSIGN(auto overridden, profiler::override_model(std::move(published).value(), profile));
  DeviceCosts costs{std::move(overridden.model), false, {}, {}, {}};
  costs.is_analytic = has_analytic_curve(costs.model);
  if (!profile.samples.empty())
    for (const auto& [key, value] : imported.fingerprint.fields) costs.model.fingerprint.fields.try_emplace(key, value);
  for (const auto& known : planner::published_devices())
    if (known.name == device && costs.is_analytic) {
      costs.notes.push_back("ANALYTIC: from " + std::string(known.source));
      costs.notes.push_back("confidence: " + std::string(known.confidence));
    }
  costs.notes.insert(costs.notes.end(), overridden.notes.begin(), overridden.notes.end());
  return costs;
}

} // namespace

Result<DeviceCosts> device_costs(const std::string& device, const planner::OpSpec& op,
                                 const planner::PlanOptions& limits, const StoreOptions& store) {
  auto layers = store.open(StoreUse::Read);
  if (!layers && (layers.error().code != ErrorCode::NotFound || store.is_named())) return layers.error();
  MC2_ASSIGN(auto costs, costs_of_parts(device, op, layers ? &layers.value() : nullptr));
  if (!layers) return costs; // who has measured nothing yet
  MC2_ASSIGN(auto cuts, store::list_measured_cuts(layers.value().writable(), device, op));
  MC2_TRY(learn_from_cuts(nearest_cuts(std::move(cuts), op), op, limits, costs));
  return costs;
}

} // namespace mc2::cli
