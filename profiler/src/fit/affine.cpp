#include <array>
#include <cstddef>

#include <ceres/autodiff_cost_function.h>
#include <ceres/loss_function.h>

#include "fit/family.hpp"
#include "fit/robust.hpp"
#include "fit/solver.hpp"

namespace mc2::profiler::fit {
namespace {

using AffineParameters = std::array<double, 2>; // alpha, beta

/// (alpha + beta x - time) / time.
struct AffineResidual {
  double x;
  double time;

  template <typename T>
  bool operator()(const T* parameters, T* residual) const {
    residual[0] = (parameters[0] + parameters[1] * x) / time - 1.0;
    return true;
  }
};

std::optional<AffineParameters> start(const ScaledPoints& scaled, double robust_scale) {
  Basis basis(static_cast<Eigen::Index>(scaled.x.size()), 2);
  for (std::size_t i = 0; i < scaled.x.size(); ++i) basis.row(static_cast<Eigen::Index>(i)) << 1.0, scaled.x[i];
  const std::optional<Coefficients> coefficients = nonnegative_start(basis, scaled.time, robust_scale);
  if (!coefficients) return std::nullopt;
  return AffineParameters{(*coefficients)(0), (*coefficients)(1)};
}

std::vector<bool> inliers_of(const ScaledPoints& scaled, const AffineParameters& parameters, double robust_scale) {
  std::vector<double> errors(scaled.x.size());
  for (std::size_t i = 0; i < errors.size(); ++i) {
    errors[i] = ratio_error(parameters[0] + parameters[1] * scaled.x[i], scaled.time[i]);
  }
  return find_inliers(errors, robust_scale);
}

} // namespace

std::optional<planner::CostCurve::Shape> fit_affine(const FamilyInput& input) {
  const ScaledPoints scaled = scale_points(input.points);
  std::optional<AffineParameters> parameters = start(scaled, input.robust_scale);
  if (!parameters) return std::nullopt;

  const std::vector<bool> inliers = inliers_of(scaled, *parameters, input.robust_scale);
  ceres::Problem problem;
  auto* loss = new ceres::HuberLoss(input.robust_scale); // owned by the problem, however many residuals share it
  for (std::size_t i = 0; i < scaled.x.size(); ++i) {
    if (!inliers[i]) continue;
    problem.AddResidualBlock(
        new ceres::AutoDiffCostFunction<AffineResidual, 1, 2>(new AffineResidual{scaled.x[i], scaled.time[i]}), loss,
        parameters->data());
  }
  problem.SetParameterLowerBound(parameters->data(), 0, 0.0);
  problem.SetParameterLowerBound(parameters->data(), 1, 0.0);
  if (!solve(problem)) return std::nullopt;
  return planner::AffineCurve{(*parameters)[0] * scaled.time_scale,
                              (*parameters)[1] * scaled.time_scale / scaled.x_scale};
}

} // namespace mc2::profiler::fit
