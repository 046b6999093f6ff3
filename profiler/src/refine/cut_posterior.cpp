#include "refine/cut_posterior.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "fit/second_lane.hpp"
#include "mc2/planner/planner.hpp"

namespace mc2::profiler {
namespace {

using planner::CostModel;
using planner::Cut;
using planner::Variant;

/// What no factor explains: relative, and over which distance of number and shape of blocks it stays alike.
constexpr double kDiscrepancy = 0.015, kShapeDistance = 0.7;
/// Block lengths within this of each other, in logarithms, share most of their curve's error.
constexpr double kLengthDistance = 0.06;
/// How much faster than its lanes' curves a cut may be.
constexpr double kLaneError = 0.05;
constexpr double kSlopeStep = 0.1;

double square_kernel(double squared_distance, double scale) {
  return std::exp(-squared_distance / (2 * scale * scale));
}

/// Number of blocks, and how long the first and the last are against the mean.
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

/// The variant's cost, in a model that has it.
planner::VariantCost& cost_in(CostModel& model, const Variant& variant) {
  return *std::ranges::find(model.variants, variant, &planner::VariantCost::variant);
}

/// Lanes that do not disturb each other, and hand over for nothing.
CostModel undisturbed(CostModel model, const Variant& variant) {
  auto& cost = cost_in(model, variant);
  cost.compute.slowdown = cost.communication.slowdown = 1;
  cost.compute.fixed_us = cost.communication.fixed_us = 0;
  return model;
}

/// Relative standard deviation of a block's time around the curve. A published curve has no samples to tell by.
double error_of(const planner::CostCurve& curve) {
  if (curve.quality.cross_validated_rms > 0) return curve.quality.cross_validated_rms;
  constexpr double kNormal90 = 1.6449, kUntold = 0.05;
  return curve.relative_interval > 0 ? std::min(curve.relative_interval / kNormal90, kUntold) : kUntold;
}

/// Few block lengths carry a cut's time; of the others there may be hundreds.
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
  cost.compute.slowdown = std::max(1.0, compute * std::exp(slowdown_spread * standard[0]));
  cost.communication.slowdown = std::max(1.0, communication * std::exp(slowdown_spread * standard[1]));
  second_lane(cost, model.op.kind).fixed_us = std::max(0.0, fixed_us + fixed_scale_us * standard[2]);
  return model;
}

Result<CutPosterior> CutPosterior::make(const planner::OpSpec& op, const CostModel& model, const Variant& variant,
                                        std::vector<Cut> cuts, const FactorScale& scale) {
  CutPosterior result;
  result.at_ = scale.standard(model, variant);
  MC2_ASSIGN(result.log_us_, log_makespans(op, model, variant, cuts));
  result.slopes_.resize(result.log_us_.size(), kFactorCount);
  for (int factor = 0; factor < kFactorCount; ++factor) {
    FactorVector moved = result.at_;
    moved[factor] += kSlopeStep;
    MC2_ASSIGN(const auto log_us, log_makespans(op, scale.model_at(model, variant, moved), variant, cuts));
    result.slopes_.col(factor) = (log_us - result.log_us_) / kSlopeStep;
  }
  MC2_ASSIGN(const auto least, log_makespans(op, undisturbed(model, variant), variant, cuts));
  result.least_log_us_ = least.array() - kLaneError;
  const auto& cost = *model.cost_of(variant);
  for (const Cut& cut : cuts) {
    result.shapes_.push_back(shape_of(cut));
    MC2_ASSIGN(const auto sensitivities, planner::length_sensitivities(op, model, variant, cut));
    auto& weights = result.lengths_.emplace_back();
    for (const auto& one : sensitivities) {
      const bool is_compute = one.lane == planner::Lane::Compute;
      const auto& curve = (is_compute ? cost.compute : cost.communication).curve;
      weights.push_back({std::log(static_cast<double>(one.rows)), is_compute, one.share * error_of(curve)});
    }
    keep_heaviest(weights);
  }
  result.cuts_ = std::move(cuts);
  return result;
}

double CutPosterior::covariance(std::size_t a, std::size_t b) const {
  double result = slopes_.row(static_cast<Eigen::Index>(a)).dot(slopes_.row(static_cast<Eigen::Index>(b)));
  result += kDiscrepancy * kDiscrepancy * square_kernel((shapes_[a] - shapes_[b]).squaredNorm(), kShapeDistance);
  for (const LengthWeight& one : lengths_[a])
    for (const LengthWeight& other : lengths_[b])
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
      covariances(i, j) = covariance(seen.cut, seen_[static_cast<std::size_t>(j)].cut);
    covariances(i, i) += seen.variance;
    residuals[i] = seen.log_ratio + slopes_.row(static_cast<Eigen::Index>(seen.cut)).dot(at_);
  }
  factored_.compute(covariances);
  weights_ = factored_.solve(residuals);
}

void CutPosterior::observe(std::span<const Observation> seen) {
  seen_.insert(seen_.end(), seen.begin(), seen.end());
  solve();
}

void CutPosterior::pretend(std::size_t cut, double variance) {
  const double log_ratio = belief(cut).log_us - log_us_[static_cast<Eigen::Index>(cut)];
  const Observation expected{cut, log_ratio, variance};
  observe({&expected, 1});
}

CutPosterior::Belief CutPosterior::belief(std::size_t cut) const {
  const auto row = static_cast<Eigen::Index>(cut);
  const double prior_variance = covariance(cut, cut), prior = log_us_[row] - slopes_.row(row).dot(at_);
  if (seen_.empty()) return {std::max(prior, least_log_us_[row]), std::sqrt(prior_variance)};
  Eigen::VectorXd beside(static_cast<Eigen::Index>(seen_.size()));
  for (std::size_t i = 0; i < seen_.size(); ++i) beside[static_cast<Eigen::Index>(i)] = covariance(cut, seen_[i].cut);
  const double variance = prior_variance - beside.dot(factored_.solve(beside));
  return {std::max(prior + beside.dot(weights_), least_log_us_[row]), std::sqrt(std::max(variance, 0.0))};
}

FactorVector CutPosterior::factor_deviations() const {
  const auto count = static_cast<Eigen::Index>(seen_.size());
  if (count == 0) return FactorVector::Ones();
  Eigen::MatrixXd slopes(count, kFactorCount);
  for (Eigen::Index i = 0; i < count; ++i)
    slopes.row(i) = slopes_.row(static_cast<Eigen::Index>(seen_[static_cast<std::size_t>(i)].cut));
  const Eigen::MatrixXd known = slopes.transpose() * factored_.solve(slopes);
  return (FactorVector::Ones() - known.diagonal()).cwiseMax(0).cwiseSqrt();
}

} // namespace mc2::profiler
