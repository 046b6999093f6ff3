#include "mc2/profiler/curve_samples.hpp"

#include "fit/round_drift.hpp"
#include "mc2/profiler/drift.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler {
namespace {

using planner::Component;
using planner::Sample;

/// Whether a sample of this lane and variant has a time and size above 0. Others are neither fitted nor drawn.
bool is_drawable(const Sample& sample, Component component, const std::string& variant) {
  return sample.component == component && sample.variant == variant && sample.time.count() > 0 && sample.size() > 0;
}

} // namespace

std::vector<CurveSample> curve_samples(const planner::Profile& profile, planner::Component component,
                                       const std::string& variant) {
  // The same drift correction as in fit_cost_model.
  const Drift drift = fit::drift_of(profile, component);
  const double level = fit::reference_factor(drift, kLowQuantile);
  std::vector<CurveSample> result;
  for (const auto& sample : profile.samples)
    if (is_drawable(sample, component, variant))
      result.push_back({static_cast<double>(sample.size()), sample.time_us() / drift.factor(sample.round) * level,
                        sample.context == planner::Context::CoRun, sample.is_outlier});
  return result;
}

double relative_residual(const planner::CostCurve& curve, double slowdown, const CurveSample& sample) {
  const double expected_us = curve.time_us(sample.x) * (sample.is_co_run ? slowdown : 1);
  return expected_us > 0 ? sample.time_us / expected_us - 1 : 0;
}

std::vector<CurveSample> thinned(const std::vector<CurveSample>& samples, std::size_t most) {
  const std::size_t stride = samples.size() / most + 1;
  std::vector<CurveSample> result;
  for (std::size_t i = 0; i < samples.size(); i += stride) result.push_back(samples[i]);
  return result;
}

} // namespace mc2::profiler
