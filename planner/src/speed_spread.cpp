#include "mc2/planner/speed_spread.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "mc2/planner/planner.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner {
namespace {

constexpr double kMissShare = 0.1;
/// Step by which the share of missed ratios adapts (Gibbs and Candes try 0.005 to 0.05), and the largest share.
constexpr double kMissStep = 0.05, kMostMissShare = 0.3;
/// Quantiles of the absolute value of a standard normal variable, at 5, 15, ... 95 %.
constexpr std::array kHalfNormalQuantiles{0.0627, 0.1891, 0.3186, 0.4538, 0.5978,
                                          0.7554, 0.9346, 1.1503, 1.4395, 1.9600};
/// Weight of a run relative to the next newer one, and of the profile relative to the newest run.
constexpr double kOlderWeight = 0.5, kProfileWeight = 0.5;

/// The smallest of ascending values that covers all but `miss_share` of these values and one more to come.
double conformal_quantile(std::span<const double> ascending, double miss_share) {
  const auto rank = static_cast<std::size_t>(std::ceil((1 - miss_share) * static_cast<double>(ascending.size() + 1)));
  return ascending[std::min(rank, ascending.size()) - 1];
}

/// What covers a ratio and its inverse, relative to the prediction.
double half_width(std::span<const SpeedRatio> newest_first, double SpeedRatio::*which, double prior_deviation) {
  std::vector<double> deviations;
  deviations.reserve(kHalfNormalQuantiles.size() + newest_first.size());
  for (const double quantile : kHalfNormalQuantiles) deviations.push_back(prior_deviation * quantile);
  double miss_share = kMissShare;
  for (auto one = newest_first.rbegin(); one != newest_first.rend(); ++one) {
    const double ratio = (*one).*which;
    if (!(ratio > 0)) continue;
    const double deviation = std::abs(std::log(ratio));
    const bool is_missed = deviation > conformal_quantile(deviations, miss_share);
    miss_share = std::clamp(miss_share + kMissStep * (kMissShare - (is_missed ? 1 : 0)), 0.0, kMostMissShare);
    deviations.insert(std::ranges::upper_bound(deviations, deviation), deviation);
  }
  return std::expm1(conformal_quantile(deviations, miss_share));
}

/// Calls change(curve, value) for each curve, with the value of its lane; the local part belongs to the compute lane.
template <typename Change>
void change_curves(VariantCost& cost, double compute, double communication, const Change& change) {
  change(cost.compute.curve, compute);
  change(cost.communication.curve, communication);
  if (cost.local_compute) change(*cost.local_compute, compute);
}

} // namespace

SpeedSpread speed_spread(std::span<const SpeedRatio> ratios, double serial_us) {
  std::vector<SpeedRatio> near;
  std::ranges::copy_if(ratios, std::back_inserter(near), [&](const SpeedRatio& one) {
    return !(serial_us > 0) || (one.serial_us <= kSpreadReach * serial_us && one.serial_us * kSpreadReach >= serial_us);
  });
  const bool tells_of_runs = std::ranges::any_of(near, [](const SpeedRatio& one) { return one.makespan > 0; });
  return {half_width(near, &SpeedRatio::compute, kPriorSpeedDeviation),
          half_width(near, &SpeedRatio::communication, kPriorSpeedDeviation),
          half_width(near, &SpeedRatio::overlap, kPriorOverlapDeviation),
          tells_of_runs ? half_width(near, &SpeedRatio::makespan, kPriorSpeedDeviation) : 0};
}

std::vector<RunSpeed> run_speeds(const CostModel& model, const MessageTimes& messages, std::span<const UncutRun> runs) {
  std::vector<RunSpeed> speeds;
  for (const UncutRun& run : runs) {
    if (!has_same_block_costs(model.op, run.op) || !(run.compute_us > 0) || !(run.communication_us > 0)) continue;
    auto alone = restricted_to(run.variant, model);
    if (!alone) continue;
    const CostModel predicted = at_length(std::move(alone).value(), messages, run.op);
    const double compute_us = predicted.variants.front().uncut_compute_us(run.op);
    const double communication_us = predicted.variants.front().uncut_communication_us(run.op);
    if (!(compute_us > 0 && communication_us > 0 && std::isfinite(compute_us * communication_us))) continue;
    speeds.push_back({std::log(run.compute_us / compute_us), std::log(run.communication_us / communication_us),
                      static_cast<double>(cut_axis_length(run.op))});
  }
  return speeds;
}

SpeedLevel speed_level(std::span<const RunSpeed> runs, const OpSpec& op) {
  const auto length = static_cast<double>(cut_axis_length(op));
  double compute = 0, communication = 0, age_weight = 1, weights = kProfileWeight;
  for (const RunSpeed& run : runs) {
    const double weight = age_weight * std::min(run.length, length) / std::max(run.length, length);
    compute += weight * run.log_compute;
    communication += weight * run.log_communication;
    weights += weight;
    age_weight *= kOlderWeight;
  }
  return {std::exp(compute / weights), std::exp(communication / weights), static_cast<int>(runs.size())};
}

CostModel with_level(CostModel model, const SpeedLevel& level) {
  for (VariantCost& cost : model.variants)
    change_curves(cost, level.compute, level.communication, [](CostCurve& curve, double factor) {
      if (!curve.is_analytic) curve = scaled(std::move(curve), factor);
    });
  for (VariantCost& cost : model.variants) {
    cost.compute.start_us *= level.compute;
    cost.communication.start_us *= level.communication;
  }
  if (model.serial) model.serial->compute_us *= level.compute;
  return model;
}

namespace {

/// at_speed() for a model of one variant.
CostModel alone_at_speed(CostModel model, const OpSpec& op, const TimedLanes& times) {
  model = anchored(std::move(model), op, times.compute_us, times.communication_us, times.cut.block_rows);
  change_curves(model.variants.front(), times.compute_interval, times.communication_interval,
                [&](CostCurve& curve, double of_times) {
                  const double of_curve = model.anchored_interval ? 0 : curve.curve_interval();
                  curve.relative_interval = joined_interval(of_times, of_curve);
                });
  return model;
}

} // namespace

Result<CostModel> at_speed(const CostModel& model, const OpSpec& op, std::span<const TimedLanes> times) {
  CostModel result = model;
  result.variants.clear();
  double log_factors = 0;
  for (const TimedLanes& one : times) {
    for (const double us : {one.compute_us, one.communication_us})
      if (!(us > 0) || !std::isfinite(us))
        return Error{ErrorCode::InvalidSpec, "uncut times", "must be positive and finite"};
    const auto alone = restricted_to(parse_variant(one.variant), model);
    if (!alone) continue;
    CostModel now = alone_at_speed(alone.value(), op, one);
    result.variants.push_back(std::move(now.variants.front()));
    if (model.serial) log_factors += std::log(now.serial->compute_us / model.serial->compute_us);
  }
  if (result.variants.empty()) return Error{ErrorCode::NotFound, "uncut times", "are of none of the model's variants"};
  if (result.serial) // each variant's lanes tell how fast the machine is now
    result.serial->compute_us *= std::exp(log_factors / static_cast<double>(result.variants.size()));
  return result;
}

namespace {

/// The cost with the step's numbers `sign` times added, within their bounds.
VariantCost moved(VariantCost cost, const CostStep& step, double sign, const OpTraits& traits) {
  const auto move = [sign](double& value, double change, double least) {
    value = std::max(least, value + sign * change);
  };
  move(cost.compute.slowdown, step.compute_slowdown, cost.least_slowdown(Lane::Compute));
  move(cost.communication.slowdown, step.communication_slowdown, cost.least_slowdown(Lane::Communication));
  move(traits.first_lane == Lane::Compute ? cost.communication.fixed_us : cost.compute.fixed_us, step.fixed_us, 0);
  move(cost.run_us, step.run_us, 0);
  return cost;
}

} // namespace

double RaceIntervals::joined() const noexcept { return joined_interval(anchored, open); }

RaceIntervals race_intervals(const CostModel& model, const Plan& plan) {
  RaceIntervals intervals{model.anchored_interval.value_or(0)};
  auto alone = restricted_to(plan.variant, model);
  if (!alone) return intervals;
  VariantCost& cost = alone.value().variants.front();
  const VariantCost raced = cost;
  const auto makespan_us = [&](const CostStep& step, double sign) {
    cost = moved(raced, step, sign, traits_of(plan.op.kind));
    if (!plan.counts.empty()) {
      const auto routed = predict_cut(plan.op, alone.value(), plan.cut, plan.counts);
      return routed ? routed.value().makespan.us : 0;
    }
    const auto us = predict_lane_times(plan.op, alone.value(), plan.variant, plan.cut);
    return us ? us.value().makespan_us : 0;
  };
  const double expected_us = makespan_us({}, 0);
  if (expected_us == 0) return intervals;
  for (const CostStep& step : raced.open_steps) {
    const double slower_us = makespan_us(step, 1), faster_us = makespan_us(step, -1);
    const double effect_us = std::max(std::abs(slower_us - expected_us), std::abs(faster_us - expected_us));
    intervals.open = std::hypot(intervals.open, effect_us / expected_us);
  }
  return intervals;
}

Plan with_race_intervals(const RaceIntervals& intervals, Plan plan) {
  Estimate& makespan = plan.makespan;
  const double more_us = intervals.joined() * makespan.us;
  makespan.low_us = std::max(0.0, makespan.us - std::hypot(makespan.us - makespan.low_us, more_us));
  makespan.high_us = std::min(kMaxTimeUs, makespan.us + std::hypot(makespan.high_us - makespan.us, more_us));
  if (!plan.benefit_interval) return plan;
  auto& [low, high] = *plan.benefit_interval;
  const double ratio = makespan.us / plan.serial_us, expected = 1 - ratio;
  low = expected - std::hypot(expected - low, intervals.open * ratio);
  // A prediction that ends there was cut off there.
  const double most = high == strategies::kMostHidden ? strategies::kMostHidden : 1.0;
  high = std::min(most, expected + std::hypot(high - expected, intervals.open * ratio));
  return plan;
}

CostModel with_spread(CostModel model, const SpeedSpread& spread) {
  model.spread = spread;
  for (VariantCost& cost : model.variants)
    change_curves(cost, spread.compute, spread.communication, [](CostCurve& curve, double half_width) {
      if (!curve.is_analytic) curve.relative_interval = joined_interval(curve.relative_interval, half_width);
    });
  return model;
}

} // namespace mc2::planner
