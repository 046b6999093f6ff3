#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "fit/family.hpp"
#include "fit/linear.hpp"

namespace mc2::profiler::fit {
namespace {

using planner::StaircaseCurve;

constexpr double kMaxWaveCount = 32;    ///< steps in the range; finer ones cannot be told from a slope
constexpr double kMinWaveCount = 1.25;  ///< the largest size must lie well inside the second wave
constexpr double kMinGapsPerWave = 1.5; ///< in gaps of the closest sizes: shorter waves cannot be told apart (aliasing)
constexpr std::size_t kMaxPeriodCount = 1024;
struct Staircase {
  LinearFit base; ///< alpha, beta, step
  double period = 0;
};

std::optional<LinearFit> fit_base(const ScaledPoints& scaled, double period, double robust_scale,
                                  int reweighting_count) {
  RelativeDesign design(static_cast<Eigen::Index>(scaled.x.size()), 3);
  for (std::size_t i = 0; i < scaled.x.size(); ++i) {
    const auto row = static_cast<Eigen::Index>(i);
    design.row(row) << 1.0, scaled.x[i], planner::wave_count(scaled.x[i], period);
    design.row(row) /= scaled.time[i];
  }
  return fit_nonnegative(design, robust_scale, reweighting_count);
}

/// The wave count of a size changes only where the period passes size / count, so the loss is constant between two such
/// values. Trying the middle of each interval therefore tries every period.
std::vector<double> periods_to_try(const ScaledPoints& scaled) {
  double smallest_gap = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < scaled.x.size(); ++i)
    smallest_gap = std::min(smallest_gap, scaled.x[i] - scaled.x[i - 1]);
  const double shortest = std::max(1 / kMaxWaveCount, kMinGapsPerWave * smallest_gap);
  const double longest = 1 / kMinWaveCount;
  std::vector<double> edges{shortest, longest};
  for (const double x : scaled.x) {
    for (double count = std::max(1.0, std::ceil(x / longest)); count * shortest <= x; ++count)
      edges.push_back(x / count);
  }
  std::sort(edges.begin(), edges.end());
  std::vector<double> periods;
  for (std::size_t i = 1; i < edges.size(); ++i) {
    const bool is_rounding = edges[i] <= edges[i - 1] * (1 + 1e-9);
    if (!is_rounding && edges[i - 1] >= shortest && edges[i] <= longest)
      periods.push_back((edges[i - 1] + edges[i]) / 2);
  }
  return periods;
}

void keep_every(std::vector<double>& values, std::size_t limit) {
  if (values.size() <= limit) return;
  for (std::size_t i = 0; i < limit; ++i) values[i] = values[i * values.size() / limit];
  values.resize(limit);
}

std::optional<Staircase> best_staircase(const ScaledPoints& scaled, double robust_scale) {
  std::vector<double> periods = periods_to_try(scaled);
  keep_every(periods, kMaxPeriodCount);
  std::optional<Staircase> best;
  for (const double period : periods) {
    const auto base = fit_base(scaled, period, robust_scale, kSearchReweightings);
    if (!base || !(base->coefficients(2) > 0)) continue;
    if (!best || base->cost < best->base.cost) best = Staircase{*base, period};
  }
  if (!best) return best;
  const auto base = fit_base(scaled, best->period, robust_scale, kFinalReweightings);
  if (base && base->coefficients(2) > 0) best->base = *base;
  return best;
}

StaircaseCurve to_curve(const Staircase& staircase, const ScaledPoints& scaled) {
  const auto& coefficients = staircase.base.coefficients;
  return {coefficients(0) * scaled.time_scale, coefficients(1) * scaled.time_scale / scaled.x_scale,
          coefficients(2) * scaled.time_scale, staircase.period * scaled.x_scale, "fitted"};
}

} // namespace

std::optional<planner::CostCurve::Shape> fit_staircase(const FamilyInput& input) {
  const ScaledPoints scaled = scale_points(input.points);
  const std::optional<Staircase> best = best_staircase(scaled, input.robust_scale);
  if (!best || best->period * scaled.x_scale < 1) return std::nullopt;
  return to_curve(*best, scaled);
}

} // namespace mc2::profiler::fit
