#include "device_plan.hpp"

#include <algorithm>
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
Error unknown_costs(const std::string& device, const planner::OpSpec& op, const store::Layers& layers,
                    Error unpublished) {
  if (unpublished.code != ErrorCode::UnknownName) return unpublished;
  std::set<std::string> imported;
  for (const auto& profile : layers.list_profiles({{"backend", "imported"}}))
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
  return DeviceCosts{std::move(fitted.model), false, std::move(fitted.notes)};
}

} // namespace

Result<DeviceCosts> device_costs(const std::string& device, const planner::OpSpec& op, const StoreOptions& store) {
  MC2_ASSIGN(const auto layers, store.open(StoreUse::Read));
  MC2_ASSIGN(const auto imported, find_imported(layers, device));
  const planner::Profile profile = imported.profile_for(op);
  auto published = planner::device_model(device, op);
  if (!published && profile.samples.empty()) return unknown_costs(device, op, layers, published.error());
  if (!published) return measured_costs(profile);
  MC2_ASSIGN(auto overridden, profiler::override_model(std::move(published).value(), profile));
  DeviceCosts costs{std::move(overridden.model), false, {}};
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

} // namespace mc2::cli
