#include "mc2/profiler/curve_samples.hpp"

#include <map>
#include <tuple>

#include "mc2/planner/units.hpp"
#include "mc2/profiler/drift.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler {
namespace {

using planner::Component;
using planner::Sample;

/// Samples beyond these are neither fitted nor drawn.
bool is_drawable(const Sample& sample, Component component, const std::string& variant) {
  return sample.component == component && sample.variant == variant && sample.time.count() > 0 && sample.size() > 0;
}

/// The rounds' drift and its level, by which fit_cost_model corrects times.
struct Correction {
  Drift drift;
  double level = 1;

  [[nodiscard]] double time_us(const Sample& sample) const {
    return sample.time_us() / drift.factor(sample.round) * level;
  }
};

Correction correction_of(const planner::Profile& profile, Component component) {
  std::map<std::tuple<std::string, planner::Context, std::int64_t>, int> rows;
  std::vector<DriftCell> cells;
  for (const auto& sample : profile.samples) {
    if (sample.is_outlier || !is_drawable(sample, component, sample.variant)) continue;
    const auto key = std::tuple(sample.variant, sample.context, sample.size());
    const int row = rows.try_emplace(key, static_cast<int>(rows.size())).first->second;
    cells.push_back({row, sample.round, sample.time_us()});
  }
  Correction correction{estimate_drift(cells)};
  std::vector<double> factors;
  for (const auto& [number, round] : correction.drift.rounds)
    if (round.is_estimated) factors.push_back(round.factor);
  if (!factors.empty()) correction.level = quantile(factors, FitOptions{}.quantile);
  return correction;
}

} // namespace

std::vector<CurveSample> curve_samples(const planner::Profile& profile, planner::Component component,
                                       const std::string& variant) {
  const Correction correction = correction_of(profile, component);
  std::vector<CurveSample> result;
  for (const auto& sample : profile.samples)
    if (is_drawable(sample, component, variant))
      result.push_back({static_cast<double>(sample.size()), correction.time_us(sample),
                        sample.context == planner::Context::CoRun, sample.is_outlier});
  return result;
}

} // namespace mc2::profiler
