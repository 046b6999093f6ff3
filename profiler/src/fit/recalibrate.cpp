#include "mc2/profiler/recalibrate.hpp"

#include <ceres/ceres.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "fit/cross_validation.hpp"
#include "fit/curve_error.hpp"
#include "fit/second_lane.hpp"
#include "fit/solver.hpp"
#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::profiler {
namespace {

using planner::CostModel;
using planner::MeasuredCut;

/// Parameters: compute slow-down, communication slow-down, fixed us per block, us of a run besides its blocks.
constexpr int kParameterCount = 4;
constexpr double kMaxSlowdown = 20;
constexpr double kMostPart = 0.999; ///< upper bound of a slow-down that was profiled below 1

/// The model with the parameters set in the costs of this variant.
CostModel with_parameters(CostModel model, const planner::Variant& variant, const double* parameters) {
  for (auto& cost : model.variants) {
    if (cost.variant != variant) continue;
    // Numeric differentiation steps beyond the bounds, where the model is not defined.
    cost.compute.slowdown = std::max(parameters[0], cost.least_slowdown(planner::Lane::Compute));
    cost.communication.slowdown = std::max(parameters[1], cost.least_slowdown(planner::Lane::Communication));
    cost.compute.slowdown_interval = cost.communication.slowdown_interval = 0;
    second_lane(cost, model.op.kind).fixed_us = std::max(parameters[2], 0.0);
    if (planner::has_run_cost(variant)) cost.run_us = std::max(parameters[3], 0.0);
  }
  return model;
}

Result<planner::LaneTimes> predicted(const CostModel& model, const MeasuredCut& seen, const double* parameters) {
  const CostModel anchored = planner::anchored(with_parameters(model, seen.variant, parameters), model.op,
                                               seen.compute_us, seen.communication_us);
  return planner::predict_lane_times(model.op, anchored, seen.variant, seen.cut);
}

/// Residuals per observation: the time of the cut, and the sum over its blocks on each lane.
constexpr int kTimeCount = 3;

/// log(predicted / measured) / spread for the times of one raced cut; 0 for times that were not measured.
struct RaceResidual {
  const CostModel& model;
  const MeasuredCut& seen;
  double spread, compute_spread, communication_spread;

  bool operator()(const double* parameters, double* residual) const {
    const auto us = predicted(model, seen, parameters);
    if (!us) return false;
    const auto over = [](double predicted_us, double measured_us, double own_spread) {
      return measured_us > 0 ? std::log(predicted_us / measured_us) / own_spread : 0;
    };
    residual[0] = over(us.value().makespan_us, seen.fused_us, spread);
    residual[1] = over(us.value().compute_us, seen.compute_blocks_us, compute_spread);
    residual[2] = over(us.value().communication_us, seen.communication_blocks_us, communication_spread);
    return std::all_of(residual, residual + kTimeCount, [](double one) { return std::isfinite(one); });
  }
};

/// Deviation of the parameters from their profiled values.
struct PriorResidual {
  double profiled[kParameterCount];
  double slowdown_spread;
  double fixed_scale_us, run_scale_us;

  bool operator()(const double* parameters, double* residual) const {
    residual[0] = std::log(parameters[0] / profiled[0]) / slowdown_spread;
    residual[1] = std::log(parameters[1] / profiled[1]) / slowdown_spread;
    residual[2] = (parameters[2] - profiled[2]) / fixed_scale_us;
    residual[3] = (parameters[3] - profiled[3]) / run_scale_us;
    return true;
  }
};

Result<void> validate(const CostModel& model, std::span<const MeasuredCut> observations) {
  MC2_TRY(model.validate());
  if (observations.empty()) return Error{ErrorCode::CannotFit, "race", "has no measured cut to recalibrate with"};
  const auto is_time = [](double us) { return us > 0 && std::isfinite(us); };
  for (const auto& seen : observations)
    if (!is_time(seen.fused_us) || !is_time(seen.compute_us) || !is_time(seen.communication_us) ||
        (seen.compute_blocks_us != 0 && !is_time(seen.compute_blocks_us)) ||
        (seen.communication_blocks_us != 0 && !is_time(seen.communication_blocks_us)))
      return Error{ErrorCode::CannotFit, "race", "holds a time that is not positive and finite"};
  return {};
}

Result<double> relative_rms(const CostModel& model, std::span<const MeasuredCut> observations,
                            const double* parameters) {
  double sum = 0;
  for (const auto& seen : observations) {
    MC2_ASSIGN(const auto us, predicted(model, seen, parameters));
    sum += std::pow(us.makespan_us / seen.fused_us - 1, 2);
  }
  return std::sqrt(sum / static_cast<double>(observations.size()));
}

double anchored_interval(double relative_rms, std::size_t observation_count, double measurement_spread) {
  const auto count = static_cast<double>(observation_count);
  const double square_sum =
      kPriorObservationCount * measurement_spread * measurement_spread + count * relative_rms * relative_rms;
  const int degrees = kPriorObservationCount + static_cast<int>(observation_count);
  return std::min(fit::student_t95(degrees) * std::sqrt(square_sum / degrees), planner::kMaxCurveInterval);
}

double mean_block_us(std::span<const MeasuredCut> observations) {
  double sum = 0;
  for (const auto& seen : observations) sum += seen.fused_us / static_cast<double>(seen.cut.block_rows.size());
  return sum / static_cast<double>(observations.size());
}

void solve(const CostModel& model, std::span<const MeasuredCut> observations, const RecalibrateOptions& options,
           double* parameters) {
  ceres::Problem problem;
  const planner::VariantCost& cost = *model.cost_of(observations.front().variant);
  for (const auto& seen : observations)
    problem.AddResidualBlock(
        new ceres::NumericDiffCostFunction<RaceResidual, ceres::CENTRAL, kTimeCount, kParameterCount>(
            new RaceResidual{model, seen, options.measurement_spread,
                             std::hypot(options.measurement_spread, fit::relative_error(cost.compute.curve)),
                             std::hypot(options.measurement_spread, fit::relative_error(cost.communication.curve))}),
        nullptr, parameters);
  problem.AddResidualBlock(
      new ceres::NumericDiffCostFunction<PriorResidual, ceres::CENTRAL, kParameterCount, kParameterCount>(
          new PriorResidual{{parameters[0], parameters[1], parameters[2], parameters[3]},
                            options.slowdown_spread,
                            options.fixed_spread * mean_block_us(observations),
                            options.run_spread_us}),
      nullptr, parameters);
  const auto bound = [&](int slowdown, const planner::LaneCost& lane, planner::Lane name) {
    problem.SetParameterLowerBound(parameters, slowdown, cost.least_slowdown(name));
    // A slow-down below 1 stays below 1, because there one lane does a part of the other's work. For a variant that
    // shares its collective it may also rise above 1.
    const bool stays_below = lane.slowdown < 1 && !planner::shares_collective(cost.variant);
    problem.SetParameterUpperBound(parameters, slowdown, stays_below ? kMostPart : kMaxSlowdown);
  };
  bound(0, cost.compute, planner::Lane::Compute);
  bound(1, cost.communication, planner::Lane::Communication);
  problem.SetParameterLowerBound(parameters, 2, 0);
  problem.SetParameterLowerBound(parameters, 3, 0);
  fit::solve_roughly(problem);
}

/// Recalibrates one variant. All observations are of that variant.
Result<Recalibration> recalibrate_variant(const CostModel& model, const std::vector<MeasuredCut>& observations,
                                          const RecalibrateOptions& options) {
  const planner::Variant& variant = observations.front().variant;
  const auto* cost = model.cost_of(variant);
  if (cost == nullptr)
    return Error{ErrorCode::UnknownName, "variant", "the model has no variant '" + variant.text() + "'"};
  double parameters[kParameterCount] = {cost->compute.slowdown, cost->communication.slowdown,
                                        second_lane(*cost, model.op.kind).fixed_us, cost->run_us};
  MC2_ASSIGN(const auto before, relative_rms(model, observations, parameters));
  solve(model, observations, options, parameters);
  MC2_ASSIGN(const auto after, relative_rms(model, observations, parameters));
  const std::string text = "slow-down compute " + number(parameters[0], "%.3f, ") + "communication " +
                           number(parameters[1], "%.3f, ") + number(parameters[2], "%.1f us fixed per block") +
                           (parameters[3] > 0 ? number(parameters[3], ", %.1f us per run") : "") + "; " +
                           "predicted against " + std::to_string(observations.size()) + " raced cuts " +
                           percent_text(before) + " rms before, " + percent_text(after) + " after";
  return Recalibration{with_parameters(model, variant, parameters), before, after, text};
}

/// The observations grouped by variant, in the order of each variant's first observation.
std::vector<std::vector<MeasuredCut>> by_variant(std::span<const MeasuredCut> observations) {
  std::vector<std::vector<MeasuredCut>> groups;
  for (const auto& seen : observations) {
    const auto group = std::ranges::find_if(groups, [&](const auto& g) { return g.front().variant == seen.variant; });
    if (group == groups.end()) {
      groups.push_back({seen});
    } else {
      group->push_back(seen);
    }
  }
  return groups;
}

/// Root mean square over all observations, from the sum of squares over the groups.
double pooled_rms(double sum_of_squares, std::size_t count) {
  return std::sqrt(sum_of_squares / static_cast<double>(count));
}

} // namespace

Result<Recalibration> recalibrate(const CostModel& model, std::span<const MeasuredCut> observations,
                                  const RecalibrateOptions& options) {
  MC2_TRY(validate(model, observations));
  const auto groups = by_variant(observations);
  Recalibration result{model, 0, 0, ""};
  double before = 0;
  double after = 0;
  for (const auto& group : groups) {
    MC2_ASSIGN(auto one, recalibrate_variant(result.model, group, options));
    result.model = std::move(one.model);
    const auto count = static_cast<double>(group.size());
    before += count * one.error_before * one.error_before;
    after += count * one.error_after * one.error_after;
    if (!result.text.empty()) result.text += "; ";
    result.text += (groups.size() > 1 ? group.front().variant.text() + ": " : "") + one.text;
  }
  result.error_before = pooled_rms(before, observations.size());
  result.error_after = pooled_rms(after, observations.size());
  result.model.anchored_interval =
      anchored_interval(result.error_after, observations.size(), options.measurement_spread);
  return result;
}

} // namespace mc2::profiler
