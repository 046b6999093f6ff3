#include "refine/cut_posterior.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "fit/curve_error.hpp"
#include "fit/second_lane.hpp"
#include "mc2/planner/planner.hpp"

namespace mc2::profiler {
namespace {

using planner::CostModel;
using planner::Cut;
using planner::Variant;

/// Relative size of the error that no factor explains, and the distance in number and shape of blocks over which this
/// error stays similar.
constexpr double kDiscrepancy = 0.015, kShapeDistance = 0.7;
/// Block lengths within this distance in logarithms share most of their curve's error.
constexpr double kLengthDistance = 0.06;
/// How much faster a cut may be than undisturbed lanes allow, because the lanes' curves have errors.
constexpr double kLaneError = 0.05;
constexpr double kSlopeStep = 0.1;

double square_kernel(double squared_distance, double scale) {
  return std::exp(-squared_distance / (2 * scale * scale));
}

/// Logarithms of the number of blocks, and of the first and the last block's length over the mean.
Eigen::Vector3d shape_of(const Cut& cut) {
  double rows = 0;
  for (const auto block : cut.block_rows) rows += static_cast<double>(block);
  const double mean = rows / static_cast<double>(cut.block_rows.size());
  return {std::log(static_cast<double>(cut.block_rows.size())),
          std::log(static_cast<double>(cut.block_rows.front()) / mean),
          std::log(static_cast<double>(cut.block_rows.back()) / mean)};
}

Result<Eigen::VectorXd> log_makespans(const planner::OpSpec& op, const CostModel& model, const Variant& variant,
                                      std::span<const Cut> cuts) {
  MC2_ASSIGN(const auto us, planner::predict_makespans(op, model, variant, cuts));
  Eigen::VectorXd logs(static_cast<Eigen::Index>(us.size()));
  for (std::size_t i = 0; i < us.size(); ++i) logs[static_cast<Eigen::Index>(i)] = std::log(us[i]);
  return logs;
}

/// The variant's cost. The model must know the variant.
planner::VariantCost& cost_in(CostModel& model, const Variant& variant) {
  return *std::ranges::find(model.variants, variant, &planner::VariantCost::variant);
}

/// The model with lanes of this variant that do not disturb each other and hand over blocks at no cost.
CostModel undisturbed(CostModel model, const Variant& variant) {
  auto& cost = cost_in(model, variant);
  cost.compute.slowdown = cost.compute.block_factor();
  cost.communication.slowdown = cost.communication.block_factor();
  cost.compute.fixed_us = cost.communication.fixed_us = 0;
  cost.run_us = 0;
  return model;
}

/// Logarithms of the cuts' predicted times, then of the sums over the blocks of `lanes`.
Result<Eigen::VectorXd> log_times(const planner::OpSpec& op, const CostModel& model, const Variant& variant,
                                  std::span<const Cut> cuts, std::span<const TimedLane> lanes) {
  MC2_ASSIGN(auto logs, log_makespans(op, model, variant, cuts));
  logs.conservativeResize(static_cast<Eigen::Index>(cuts.size() + lanes.size()));
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    MC2_ASSIGN(const auto us, planner::predict_lane_times(op, model, variant, cuts[lanes[i].cut]));
    logs[static_cast<Eigen::Index>(cuts.size() + i)] = std::log(us.blocks_us(lanes[i].lane));
  }
  return logs;
}

/// Keeps the block lengths that matter most. Few lengths carry a cut's time, but a cut may have hundreds.
template <typename Weights>
void keep_heaviest(Weights& weights) {
  constexpr std::size_t kMostLengths = 8;
  if (weights.size() <= kMostLengths) return;
  std::ranges::sort(weights, std::greater<>(), [](const auto& one) { return std::abs(one.weight); });
  weights.resize(kMostLengths);
}

} // namespace

FactorVector FactorScale::standard(const CostModel& model, const Variant& variant) const {
  const auto& cost = *model.cost_of(variant);
  return {std::log(cost.compute.slowdown / compute) / slowdown_spread,
          std::log(cost.communication.slowdown / communication) / slowdown_spread,
          (second_lane(cost, model.op.kind).fixed_us - fixed_us) / fixed_scale_us};
}

CostModel FactorScale::model_at(CostModel model, const Variant& variant, const FactorVector& standard) const {
  auto& cost = cost_in(model, variant);
  const auto moved = [&](planner::Lane lane, double profiled, double deviations) {
    return std::max(cost.least_slowdown(lane), profiled * std::exp(slowdown_spread * deviations));
  };
  cost.compute.slowdown = moved(planner::Lane::Compute, compute, standard[0]);
  cost.communication.slowdown = moved(planner::Lane::Communication, communication, standard[1]);
  second_lane(cost, model.op.kind).fixed_us = std::max(0.0, fixed_us + fixed_scale_us * standard[2]);
  return model;
}

Result<CutPosterior> CutPosterior::make(const planner::OpSpec& op, const CostModel& model, const Variant& variant,
                                        std::vector<Cut> cuts, std::span<const TimedLane> lanes,
                                        const FactorScale& scale) {
  CutPosterior result;
  result.at_ = scale.standard(model, variant);
  MC2_ASSIGN(const auto log_us, log_times(op, model, variant, cuts, lanes));
  Eigen::Matrix<double, Eigen::Dynamic, kFactorCount> slopes(log_us.size(), kFactorCount);
  for (int factor = 0; factor < kFactorCount; ++factor) {
    FactorVector moved = result.at_;
    moved[factor] += kSlopeStep;
    MC2_ASSIGN(const auto moved_log_us, log_times(op, scale.model_at(model, variant, moved), variant, cuts, lanes));
    slopes.col(factor) = (moved_log_us - log_us) / kSlopeStep;
  }
  MC2_ASSIGN(const auto least, log_makespans(op, undisturbed(model, variant), variant, cuts));
  result.least_log_us_ = least.array() - kLaneError;
  for (std::size_t i = 0; i < cuts.size() + lanes.size(); ++i) {
    const bool is_of_lane = i >= cuts.size();
    const Cut& cut = is_of_lane ? cuts[lanes[i - cuts.size()].cut] : cuts[i];
    const auto lane = is_of_lane ? std::optional(lanes[i - cuts.size()].lane) : std::nullopt;
    MC2_ASSIGN(auto lengths, lengths_of(op, model, variant, cut, lane));
    const auto row = static_cast<Eigen::Index>(i);
    result.times_.push_back({log_us[row], slopes.row(row).transpose(), lane, shape_of(cut), std::move(lengths)});
  }
  result.cuts_ = std::move(cuts);
  return result;
}

Result<std::vector<CutPosterior::LengthWeight>> CutPosterior::lengths_of(const planner::OpSpec& op,
                                                                         const CostModel& model, const Variant& variant,
                                                                         const Cut& cut,
                                                                         std::optional<planner::Lane> lane) {
  MC2_ASSIGN(const auto sensitivities, planner::length_sensitivities(op, model, variant, cut));
  const auto& cost = *model.cost_of(variant);
  std::vector<LengthWeight> weights;
  for (const auto& one : sensitivities) {
    const bool is_compute = one.lane == planner::Lane::Compute;
    const auto& curve = (is_compute ? cost.compute : cost.communication).curve;
    const double share = !lane ? one.share : one.lane == *lane ? one.lane_share : 0;
    weights.push_back({std::log(static_cast<double>(one.rows)), is_compute, share * fit::relative_error(curve)});
  }
  keep_heaviest(weights);
  return weights;
}

double CutPosterior::covariance(std::size_t a, std::size_t b) const {
  const Time &left = times_[a], &right = times_[b];
  double result = left.slopes.dot(right.slopes);
  // The unexplained error of a cut is independent of the unexplained errors of its lanes.
  if (left.lane == right.lane)
    result += kDiscrepancy * kDiscrepancy * square_kernel((left.shape - right.shape).squaredNorm(), kShapeDistance);
  for (const LengthWeight& one : left.lengths)
    for (const LengthWeight& other : right.lengths)
      if (one.is_compute == other.is_compute)
        result +=
            one.weight * other.weight * square_kernel(std::pow(one.log_rows - other.log_rows, 2), kLengthDistance);
  return result;
}

void CutPosterior::solve() {
  const auto count = static_cast<Eigen::Index>(seen_.size());
  Eigen::MatrixXd covariances(count, count);
  Eigen::VectorXd residuals(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const Observation& seen = seen_[static_cast<std::size_t>(i)];
    for (Eigen::Index j = 0; j < count; ++j)
      covariances(i, j) = covariance(seen.time, seen_[static_cast<std::size_t>(j)].time);
    covariances(i, i) += seen.variance;
    residuals[i] = seen.log_ratio + times_[seen.time].slopes.dot(at_);
  }
  factored_.compute(covariances);
  weights_ = factored_.solve(residuals);
}

void CutPosterior::observe(std::span<const Observation> seen) {
  seen_.insert(seen_.end(), seen.begin(), seen.end());
  solve();
}

std::vector<CutPosterior::Surprise> CutPosterior::surprises() const {
  std::vector<Surprise> result;
  if (seen_.empty()) return result;
  const auto count = static_cast<Eigen::Index>(seen_.size());
  const Eigen::MatrixXd inverse = factored_.solve(Eigen::MatrixXd::Identity(count, count));
  for (Eigen::Index i = 0; i < count; ++i) {
    const Observation& seen = seen_[static_cast<std::size_t>(i)];
    if (seen.time >= cuts_.size()) continue; // blocks of a lane
    const double precision = inverse(i, i), log_us = times_[seen.time].log_us + seen.log_ratio;
    result.push_back({seen.time, weights_[i] / precision, weights_[i] / std::sqrt(precision),
                      log_us - least_log_us_[static_cast<Eigen::Index>(seen.time)]});
  }
  return result;
}

void CutPosterior::pretend(std::size_t cut, double variance) {
  const double log_ratio = belief(cut).log_us - times_[cut].log_us;
  const Observation expected{cut, log_ratio, variance};
  observe({&expected, 1});
}

CutPosterior::Belief CutPosterior::belief(std::size_t cut) const {
  const double least_log_us = least_log_us_[static_cast<Eigen::Index>(cut)];
  const double prior_variance = covariance(cut, cut), prior = times_[cut].log_us - times_[cut].slopes.dot(at_);
  if (seen_.empty()) return {std::max(prior, least_log_us), std::sqrt(prior_variance)};
  Eigen::VectorXd beside(static_cast<Eigen::Index>(seen_.size()));
  for (std::size_t i = 0; i < seen_.size(); ++i) beside[static_cast<Eigen::Index>(i)] = covariance(cut, seen_[i].time);
  const double variance = prior_variance - beside.dot(factored_.solve(beside));
  return {std::max(prior + beside.dot(weights_), least_log_us), std::sqrt(std::max(variance, 0.0))};
}

FactorVector CutPosterior::factor_deviations() const {
  const auto count = static_cast<Eigen::Index>(seen_.size());
  if (count == 0) return FactorVector::Ones();
  Eigen::MatrixXd slopes(count, kFactorCount);
  for (Eigen::Index i = 0; i < count; ++i)
    slopes.row(i) = times_[seen_[static_cast<std::size_t>(i)].time].slopes.transpose();
  const Eigen::MatrixXd known = slopes.transpose() * factored_.solve(slopes);
  return (FactorVector::Ones() - known.diagonal()).cwiseMax(0).cwiseSqrt();
}

} // namespace mc2::profiler
