#include "mc2/profiler/recalibrate.hpp"

#include <ceres/ceres.h>

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fit/cross_validation.hpp"
#include "fit/curve_error.hpp"
#include "fit/second_lane.hpp"
#include "fit/solver.hpp"
#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler {
namespace {

using planner::CostModel;
using planner::MeasuredCut;

/// Parameters: compute slow-down, communication slow-down, fixed us per block, us of a run besides its blocks.
constexpr int kParameterCount = 4;
constexpr double kMaxSlowdown = 20;
constexpr double kMostPart = 0.999; ///< upper bound of a slow-down that was profiled below 1

/// A raced cut is set aside when a robust fit misses the logarithm of its time by more than kOddLogRatio and
/// kOddDeviations deviations, which are at least kRobustScale.
constexpr double kRobustScale = 0.03;
/// With fewer cuts nothing tells which of them is odd. No more than one in as many is set aside.
constexpr std::size_t kLeastToJudge = 3;

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

/// How the raced cuts' times scatter about the corrected model.
struct Residuals {
  double spread = 0; ///< relative
  double degrees = 0;
};

/// @param free_count  effective number of parameters that the raced times determined
Residuals residuals_of(double relative_rms, std::size_t observation_count, double free_count,
                       double measurement_spread) {
  const auto count = static_cast<double>(observation_count);
  const double square_sum =
      kPriorObservationCount * measurement_spread * measurement_spread + count * relative_rms * relative_rms;
  const double degrees = std::max<double>(kPriorObservationCount, kPriorObservationCount + count - free_count);
  return {std::sqrt(square_sum / degrees), degrees};
}

double mean_block_us(std::span<const MeasuredCut> observations) {
  double sum = 0;
  for (const auto& seen : observations) sum += seen.fused_us / static_cast<double>(seen.cut.block_rows.size());
  return sum / static_cast<double>(observations.size());
}

enum class Loss : std::uint8_t { Squares, Cauchy };

/// The residuals of one variant's races, then those of the prior.
void add_residuals(ceres::Problem& problem, const CostModel& model, const std::vector<MeasuredCut>& observations,
                   const RecalibrateOptions& options, Loss loss, double* parameters) {
  const planner::VariantCost& cost = *model.cost_of(observations.front().variant);
  for (const auto& seen : observations)
    problem.AddResidualBlock(
        new ceres::NumericDiffCostFunction<RaceResidual, ceres::CENTRAL, kTimeCount, kParameterCount>(
            new RaceResidual{model, seen, options.measurement_spread,
                             std::hypot(options.measurement_spread, fit::relative_error(cost.compute.curve)),
                             std::hypot(options.measurement_spread, fit::relative_error(cost.communication.curve))}),
        loss == Loss::Cauchy
            ? new ceres::CauchyLoss(std::max(kRobustScale, options.measurement_spread) / options.measurement_spread)
            : nullptr,
        parameters);
  problem.AddResidualBlock(
      new ceres::NumericDiffCostFunction<PriorResidual, ceres::CENTRAL, kParameterCount, kParameterCount>(
          new PriorResidual{{parameters[0], parameters[1], parameters[2], parameters[3]},
                            options.slowdown_spread,
                            options.fixed_spread * mean_block_us(observations),
                            options.run_spread_us}),
      nullptr, parameters);
}

void set_bounds(ceres::Problem& problem, const planner::VariantCost& cost, double* parameters) {
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
}

/// What is known of the parameters, as information matrices (inverse covariances).
struct Knowledge {
  Eigen::Matrix4d of_races = Eigen::Matrix4d::Zero(); ///< if the residuals have a variance of 1
  Eigen::Matrix4d of_prior = Eigen::Matrix4d::Identity();
  /// How many parameters the times of whole runs determined, effectively: the sum of their leverages, tr H (Hastie and
  /// Tibshirani, Generalized Additive Models, 1990, §3.5).
  double free_count = 0;
};

Knowledge knowledge_of(ceres::Problem& problem, std::size_t observation_count) {
  ceres::CRSMatrix sparse;
  if (!problem.Evaluate({}, nullptr, nullptr, nullptr, &sparse)) return {};
  Eigen::MatrixXd jacobian = Eigen::MatrixXd::Zero(sparse.num_rows, kParameterCount);
  for (int row = 0; row < sparse.num_rows; ++row)
    for (int at = sparse.rows[static_cast<std::size_t>(row)]; at < sparse.rows[static_cast<std::size_t>(row) + 1]; ++at)
      jacobian(row, sparse.cols[static_cast<std::size_t>(at)]) = sparse.values[static_cast<std::size_t>(at)];
  const Eigen::MatrixXd races = jacobian.topRows(jacobian.rows() - kParameterCount);
  const Eigen::MatrixXd prior = jacobian.bottomRows(kParameterCount);
  Knowledge found{races.transpose() * races, prior.transpose() * prior};
  const Eigen::Matrix4d covariance = (found.of_races + found.of_prior).inverse(); // regular by the prior
  for (std::size_t i = 0; i < observation_count; ++i) {
    const Eigen::RowVector4d of_run = races.row(static_cast<Eigen::Index>(i) * kTimeCount);
    found.free_count += of_run * covariance * of_run.transpose();
  }
  return std::isfinite(found.free_count) ? found : Knowledge();
}

/// The principal axes of the parameters' covariance, as steps of 90 % intervals. The parameters' bounds are left out.
/// @param residual_deviation  standard deviation of the races' residuals
std::vector<planner::CostStep> open_steps(const Knowledge& known, double residual_deviation,
                                          const planner::Variant& variant) {
  const Eigen::Matrix4d information = known.of_races / (residual_deviation * residual_deviation) + known.of_prior;
  const Eigen::SelfAdjointEigenSolver<Eigen::Matrix4d> axes(information);
  std::vector<planner::CostStep> steps;
  for (int i = 0; i < kParameterCount; ++i) {
    const Eigen::Vector4d step = planner::kNormal95 / std::sqrt(axes.eigenvalues()[i]) * axes.eigenvectors().col(i);
    const planner::CostStep one{step[0], step[1], step[2], planner::has_run_cost(variant) ? step[3] : 0};
    if (step.allFinite() && one != planner::CostStep()) steps.push_back(one);
  }
  return steps;
}

/// Sets the parameters and returns knowledge_of().
Knowledge solve(const CostModel& model, const std::vector<MeasuredCut>& observations, const RecalibrateOptions& options,
                Loss loss, double* parameters) {
  ceres::Problem problem;
  add_residuals(problem, model, observations, options, loss, parameters);
  set_bounds(problem, *model.cost_of(observations.front().variant), parameters);
  fit::solve_roughly(problem);
  return knowledge_of(problem, observations.size());
}

/// The observations of one variant: those to learn from, and those that contradict most others.
struct Judged {
  std::vector<MeasuredCut> kept;
  std::string odd; ///< what was set aside, for a text; empty where nothing was
};

/// @param profiled  the parameters as they were profiled
Result<Judged> judged(const CostModel& model, const std::vector<MeasuredCut>& observations,
                      const RecalibrateOptions& options, const double* profiled) {
  Judged all{observations, ""};
  if (observations.size() < kLeastToJudge) return all;
  double parameters[kParameterCount];
  std::copy_n(profiled, kParameterCount, parameters);
  solve(model, observations, options, Loss::Cauchy, parameters);
  std::vector<double> misses, sizes;
  for (const auto& seen : observations) {
    MC2_ASSIGN(const auto us, predicted(model, seen, parameters));
    misses.push_back(std::log(seen.fused_us / us.makespan_us));
    sizes.push_back(std::abs(misses.back()));
  }
  const double deviation = std::max({kRobustScale, options.measurement_spread, kNormalMad * median(sizes)});
  Judged rest;
  std::vector<std::string> odd;
  for (std::size_t i = 0; i < observations.size(); ++i)
    if (sizes[i] <= std::max(kOddLogRatio, kOddDeviations * deviation))
      rest.kept.push_back(observations[i]);
    else
      odd.push_back(observations[i].cut.text() + " (" + number(std::exp(misses[i]), "%.2f") +
                    "x the time that the others give)");
  rest.odd = list_text(odd);
  const std::size_t odd_count = observations.size() - rest.kept.size();
  // Where a larger share seems odd, the model is wrong rather than the cuts.
  return kLeastToJudge * odd_count <= observations.size() ? rest : all;
}

/// One variant's part of a recalibration.
struct Learned {
  Recalibration result;
  std::size_t count = 0; ///< of the raced cuts that were not set aside
  Knowledge knowledge;
};

/// Recalibrates one variant. All observations are of that variant.
Result<Learned> recalibrate_variant(const CostModel& model, const std::vector<MeasuredCut>& observations,
                                    const RecalibrateOptions& options) {
  const planner::Variant& variant = observations.front().variant;
  const auto* cost = model.cost_of(variant);
  if (cost == nullptr)
    return Error{ErrorCode::UnknownName, "variant", "the model has no variant '" + variant.text() + "'"};
  double parameters[kParameterCount] = {cost->compute.slowdown, cost->communication.slowdown,
                                        second_lane(*cost, model.op.kind).fixed_us, cost->run_us};
  MC2_TRY(relative_rms(model, observations, parameters)); // refuses what the model cannot predict before Ceres logs it
  MC2_ASSIGN(const auto cuts, judged(model, observations, options, parameters));
  MC2_ASSIGN(const auto before, relative_rms(model, cuts.kept, parameters));
  const Knowledge knowledge = solve(model, cuts.kept, options, Loss::Squares, parameters);
  MC2_ASSIGN(const auto after, relative_rms(model, cuts.kept, parameters));
  const std::string text = "slow-down compute " + number(parameters[0], "%.3f, ") + "communication " +
                           number(parameters[1], "%.3f, ") + number(parameters[2], "%.1f us fixed per block") +
                           (parameters[3] > 0 ? number(parameters[3], ", %.1f us per run") : "") + "; " +
                           "predicted against " + std::to_string(cuts.kept.size()) + " raced cuts " +
                           percent_text(before) + " rms before, " + percent_text(after) + " after" +
                           (cuts.odd.empty() ? "" : "; set aside: " + cuts.odd);
  return Learned{{with_parameters(model, variant, parameters), before, after, text}, cuts.kept.size(), knowledge};
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
  double before = 0, after = 0, free_count = 0;
  std::size_t kept_count = 0;
  std::vector<Knowledge> known;
  for (const auto& group : groups) {
    MC2_ASSIGN(auto one, recalibrate_variant(result.model, group, options));
    result.model = std::move(one.result.model);
    const auto count = static_cast<double>(one.count);
    before += count * one.result.error_before * one.result.error_before;
    after += count * one.result.error_after * one.result.error_after;
    free_count += one.knowledge.free_count;
    known.push_back(one.knowledge);
    kept_count += one.count;
    if (!result.text.empty()) result.text += "; ";
    result.text += (groups.size() > 1 ? group.front().variant.text() + ": " : "") + one.result.text;
  }
  result.error_before = pooled_rms(before, kept_count);
  result.error_after = pooled_rms(after, kept_count);
  const Residuals residuals = residuals_of(result.error_after, kept_count, free_count, options.measurement_spread);
  result.model.anchored_interval =
      std::min(fit::student_t95(static_cast<int>(residuals.degrees)) * residuals.spread, planner::kMaxCurveInterval);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const planner::Variant& variant = groups[i].front().variant;
    std::ranges::find(result.model.variants, variant, &planner::VariantCost::variant)->open_steps =
        open_steps(known[i], residuals.spread / options.measurement_spread, variant);
  }
  return result;
}

} // namespace mc2::profiler
