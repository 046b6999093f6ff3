#include "device_plan.hpp"

#include <algorithm>
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

/// A model of samples alone, for a device that nothing is published of.
Result<DeviceCosts> measured_costs(const planner::Profile& profile, const Error& unpublished) {
  if (profile.samples.empty()) return unpublished;
  auto fitted = profiler::fit_cost_model(profile);
  if (!fitted) return fitted.error();
  return DeviceCosts{std::move(fitted.value().model), false, std::move(fitted.value().notes)};
}

} // namespace

Result<DeviceCosts> device_costs(const std::string& device, const planner::OpSpec& op, const StoreOptions& store) {
  const auto layers = store.open(StoreUse::Read);
  if (!layers) return layers.error();
  const auto imported = find_imported(layers.value(), device);
  if (!imported) return imported.error();
  const planner::Profile profile = imported.value().profile_for(op);
  auto published = planner::device_model(device, op);
  if (!published) return measured_costs(profile, published.error());
  auto overridden = profiler::override_model(std::move(published).value(), profile);
  if (!overridden) return overridden.error();
  DeviceCosts costs{std::move(overridden.value().model), false, {}};
  costs.is_analytic = has_analytic_curve(costs.model);
  if (!profile.samples.empty())
    for (const auto& [key, value] : imported.value().fingerprint.fields)
      costs.model.fingerprint.fields.try_emplace(key, value);
  for (const auto& known : planner::published_devices())
    if (known.name == device && costs.is_analytic) {
      costs.notes.push_back("ANALYTIC: from " + std::string(known.source));
      costs.notes.push_back("confidence: " + std::string(known.confidence));
    }
  costs.notes.insert(costs.notes.end(), overridden.value().notes.begin(), overridden.value().notes.end());
  return costs;
}

} // namespace mc2::cli
