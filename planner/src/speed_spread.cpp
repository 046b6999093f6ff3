#include "mc2/planner/speed_spread.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace mc2::planner {
namespace {

constexpr double kCoverage = 0.9;
/// Of the absolute value of a standard normal variable, at 5, 15, ... 95 %.
constexpr std::array kHalfNormalQuantiles{0.0627, 0.1891, 0.3186, 0.4538, 0.5978,
                                          0.7554, 0.9346, 1.1503, 1.4395, 1.9600};

/// The smallest value that covers its share of the others and of one more to come.
double conformal_quantile(std::vector<double> values) {
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(kCoverage * static_cast<double>(values.size() + 1)));
  return values[std::min(rank, values.size()) - 1];
}

double half_width(std::span<const SpeedRatio> ratios, double SpeedRatio::*which, double prior_deviation) {
  std::vector<double> deviations;
  for (const double quantile : kHalfNormalQuantiles) deviations.push_back(prior_deviation * quantile);
  for (const SpeedRatio& one : ratios)
    if (one.*which > 0) deviations.push_back(std::abs(std::log(one.*which)));
  return conformal_quantile(std::move(deviations));
}

CostCurve in_any_session(CostCurve curve, double half_width) {
  if (!curve.is_analytic) curve.relative_interval = std::hypot(curve.relative_interval, half_width);
  return curve;
}

} // namespace

SpeedSpread speed_spread(std::span<const SpeedRatio> ratios) {
  return {half_width(ratios, &SpeedRatio::compute, kPriorSpeedDeviation),
          half_width(ratios, &SpeedRatio::communication, kPriorSpeedDeviation),
          half_width(ratios, &SpeedRatio::overlap, kPriorOverlapDeviation)};
}

namespace {

void set_interval(CostCurve& curve, double of_times, bool has_anchored_interval) {
  curve.relative_interval = std::hypot(of_times, has_anchored_interval ? 0 : curve.curve_interval());
}

/// Of one variant.
CostModel alone_at_speed(CostModel model, const OpSpec& op, const UncutTimes& times) {
  model = anchored(std::move(model), op, times.compute_us, times.communication_us);
  VariantCost& cost = model.variants.front();
  const bool has_anchored_interval = model.anchored_interval.has_value();
  set_interval(cost.compute.curve, times.compute_interval, has_anchored_interval);
  set_interval(cost.communication.curve, times.communication_interval, has_anchored_interval);
  if (cost.local_compute) set_interval(*cost.local_compute, times.compute_interval, has_anchored_interval);
  return model;
}

} // namespace

Result<CostModel> at_speed(CostModel model, const OpSpec& op, std::span<const UncutTimes> times) {
  CostModel result = model;
  result.variants.clear();
  for (const UncutTimes& one : times) {
    for (const double us : {one.compute_us, one.communication_us})
      if (!(us > 0) || !std::isfinite(us))
        return Error{ErrorCode::InvalidSpec, "uncut times", "must be positive and finite"};
    const auto alone = restricted_to(parse_variant(one.variant), model);
    if (alone) result.variants.push_back(alone_at_speed(alone.value(), op, one).variants.front());
  }
  if (!result.variants.empty()) return result;
  return Error{ErrorCode::NotFound, "uncut times", "are of none of the model's variants"};
}

Plan with_wider_makespan(double relative_interval, Plan plan) {
  Estimate& makespan = plan.makespan;
  const double more_us = relative_interval * makespan.us;
  makespan.low_us = std::max(0.0, makespan.us - std::hypot(makespan.us - makespan.low_us, more_us));
  makespan.high_us = makespan.us + std::hypot(makespan.high_us - makespan.us, more_us);
  return plan;
}

Plan with_wider_overlap(double relative_interval, Plan plan) {
  if (!plan.overlaps()) return plan;
  plan = with_wider_makespan(relative_interval, std::move(plan));
  if (!plan.benefit_interval) return plan;
  const double more = relative_interval * (1 - plan.benefit());
  auto& [low, high] = *plan.benefit_interval;
  low = plan.benefit() - std::hypot(plan.benefit() - low, more);
  high = plan.benefit() + std::hypot(high - plan.benefit(), more);
  return plan;
}

CostModel with_spread(CostModel model, const SpeedSpread& spread) {
  for (VariantCost& cost : model.variants) {
    cost.compute.curve = in_any_session(std::move(cost.compute.curve), spread.compute);
    cost.communication.curve = in_any_session(std::move(cost.communication.curve), spread.communication);
    if (cost.local_compute) cost.local_compute = in_any_session(*std::move(cost.local_compute), spread.compute);
  }
  return model;
}

} // namespace mc2::planner
