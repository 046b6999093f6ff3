#include "fit/round_drift.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler::fit {

Drift drift_of(const planner::Profile& profile, planner::Component component) {
  std::map<std::tuple<std::string, planner::Context, std::int64_t>, int> rows;
  std::vector<DriftCell> cells;
  for (const auto& sample : profile.samples) {
    if (sample.is_outlier || sample.component != component || sample.time.count() <= 0 || sample.size() <= 0) continue;
    const auto key = std::tuple(sample.variant, sample.context, sample.size());
    const int row = rows.try_emplace(key, static_cast<int>(rows.size())).first->second;
    cells.push_back({row, sample.round, sample.time_us()});
  }
  return estimate_drift(cells);
}

double reference_factor(const Drift& drift, double q) {
  std::vector<double> factors;
  for (const auto& [number, round] : drift.rounds) {
    if (round.is_estimated) factors.push_back(round.factor);
  }
  return factors.empty() ? 1.0 : quantile(factors, q);
}

} // namespace mc2::profiler::fit
