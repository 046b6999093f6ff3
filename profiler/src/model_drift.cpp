#include "mc2/profiler/model_drift.hpp"

#include <algorithm>
#include <cmath>

#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler {
namespace {

using planner::Component;
using planner::CostCurve;
using planner::Sample;

bool is_judged(const Sample& sample, Component component, const std::string& variant, const CostCurve& curve) {
  return sample.component == component && sample.context == planner::Context::Alone && !sample.is_outlier &&
         sample.variant == variant && sample.time.count() > 0 &&
         static_cast<double>(sample.size()) >= curve.valid_min_x &&
         static_cast<double>(sample.size()) <= curve.valid_max_x;
}

LaneDrift judge(const CostCurve& curve, Component component, const std::string& variant,
                std::span<const Sample> samples) {
  std::vector<double> residuals;
  for (const Sample& sample : samples) {
    if (!is_judged(sample, component, variant, curve)) continue;
    const double expected_us = curve.time_us(static_cast<double>(sample.size()));
    if (expected_us > 0) residuals.push_back(sample.time_us() / expected_us - 1);
  }
  LaneDrift lane{.variant = variant, .component = component, .sample_count = static_cast<int>(residuals.size())};
  lane.limit = std::max(curve.relative_interval, kLeastDrift);
  if (residuals.empty()) return lane;
  lane.median_residual = quantile(residuals, 0.5);
  lane.has_drifted = lane.sample_count >= kMinDriftSamples && std::abs(lane.median_residual) > lane.limit;
  return lane;
}

} // namespace

bool ModelDrift::has_drifted() const noexcept { return std::ranges::any_of(lanes, &LaneDrift::has_drifted); }

std::string ModelDrift::text() const {
  std::vector<std::string> texts;
  for (const LaneDrift& lane : lanes)
    if (lane.has_drifted)
      texts.push_back(std::string(to_string(lane.component)) + " of " + lane.variant + ": median " +
                      number(100 * lane.median_residual, "%+.1f %% of ") + std::to_string(lane.sample_count) +
                      " samples, beyond +-" + percent_text(lane.limit));
  return list_text(texts, "; ");
}

ModelDrift find_drift(const planner::CostModel& model, std::span<const Sample> samples) {
  ModelDrift drift;
  for (const auto& cost : model.variants) {
    const std::string variant = cost.variant.text();
    for (const auto& lane : {judge(cost.compute.curve, Component::Matmul, variant, samples),
                             judge(cost.communication.curve, Component::Collective, variant, samples)})
      if (lane.sample_count > 0) drift.lanes.push_back(lane);
  }
  return drift;
}

} // namespace mc2::profiler
