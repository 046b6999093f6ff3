#include "fit/linear.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <Eigen/Cholesky>

namespace mc2::profiler::fit {
namespace {

using Index = Eigen::Index;
using Gram = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor, kMaxLinearCoefficients,
                           kMaxLinearCoefficients>;
using Flags = std::array<bool, kMaxLinearCoefficients>;

constexpr double kGradientTolerance = 1e-12;
constexpr double kSettledWeight = 1e-3;

/// Normal equations with columns of unit length: gram x = target.
struct NormalEquations {
  Gram gram;
  LinearCoefficients target;
};

/// Least squares over the free columns; the other coefficients are 0.
LinearCoefficients solve_free(const NormalEquations& equations, const Flags& is_free) {
  std::array<Index, kMaxLinearCoefficients> columns{};
  Index count = 0;
  for (Index i = 0; i < equations.target.size(); ++i)
    if (is_free[static_cast<std::size_t>(i)]) columns[static_cast<std::size_t>(count++)] = i;
  Gram part(count, count);
  LinearCoefficients target(count);
  for (Index row = 0; row < count; ++row) {
    const Index from = columns[static_cast<std::size_t>(row)];
    target(row) = equations.target(from);
    for (Index column = 0; column < count; ++column)
      part(row, column) = equations.gram(from, columns[static_cast<std::size_t>(column)]);
  }
  const LinearCoefficients solution = part.ldlt().solve(target);
  LinearCoefficients all = LinearCoefficients::Zero(equations.target.size());
  for (Index i = 0; i < count; ++i) all(columns[static_cast<std::size_t>(i)]) = solution(i);
  return all;
}

/// Moves `from` towards `to` until the first free coefficient reaches 0, and fixes that coefficient there.
void step_to_boundary(LinearCoefficients& from, const LinearCoefficients& to, Flags& is_free) {
  double step = 1;
  for (Index i = 0; i < from.size(); ++i)
    if (is_free[static_cast<std::size_t>(i)] && to(i) <= 0) step = std::min(step, from(i) / (from(i) - to(i)));
  from += step * (to - from);
  for (Index i = 0; i < from.size(); ++i) {
    if (from(i) > kGradientTolerance) continue;
    from(i) = 0;
    is_free[static_cast<std::size_t>(i)] = false;
  }
}

bool is_feasible(const LinearCoefficients& coefficients, const Flags& is_free) {
  for (Index i = 0; i < coefficients.size(); ++i)
    if (is_free[static_cast<std::size_t>(i)] && !(coefficients(i) > 0)) return false;
  return true;
}

LinearCoefficients solve_nonnegative(const NormalEquations& equations) {
  const Index count = equations.target.size();
  LinearCoefficients best = LinearCoefficients::Zero(count);
  Flags is_free{};
  for (Index round = 0; round < 3 * count; ++round) {
    const LinearCoefficients gradient = equations.target - equations.gram * best;
    Index steepest = -1;
    for (Index i = 0; i < count; ++i) {
      if (is_free[static_cast<std::size_t>(i)] || !(gradient(i) > kGradientTolerance)) continue;
      if (steepest < 0 || gradient(i) > gradient(steepest)) steepest = i;
    }
    if (steepest < 0) break;
    is_free[static_cast<std::size_t>(steepest)] = true;
    LinearCoefficients next = solve_free(equations, is_free);
    for (Index inner = 0; inner < count && !is_feasible(next, is_free); ++inner) {
      step_to_boundary(best, next, is_free);
      next = solve_free(equations, is_free);
    }
    if (!next.allFinite() || !is_feasible(next, is_free)) break;
    best = next;
  }
  return best;
}

double mean_loss(const Eigen::VectorXd& residuals, double scale) {
  double sum = 0;
  for (const double residual : residuals) sum += huber_loss(residual, scale);
  return sum / static_cast<double>(residuals.size());
}

} // namespace

double huber_loss(double residual, double scale) noexcept {
  const double size = std::abs(residual);
  return size <= scale ? size * size / 2 : scale * (size - scale / 2);
}

std::optional<LinearFit> fit_nonnegative(const RelativeDesign& design, double robust_scale, int reweighting_count) {
  const double square_sum = design.squaredNorm();
  if (!std::isfinite(square_sum) || square_sum <= 0) return std::nullopt;
  const LinearCoefficients norms = design.colwise().norm().transpose();
  RelativeDesign unit = design;
  for (Index column = 0; column < design.cols(); ++column)
    if (norms(column) > 0) unit.col(column) /= norms(column);
  Eigen::VectorXd weights = Eigen::VectorXd::Ones(design.rows());
  Eigen::VectorXd residuals(design.rows());
  LinearCoefficients solution;
  for (int round = 0; round <= reweighting_count; ++round) {
    const RelativeDesign weighted = weights.asDiagonal() * unit;
    solution = solve_nonnegative({unit.transpose() * weighted, weighted.colwise().sum().transpose()});
    residuals = unit * solution - Eigen::VectorXd::Ones(design.rows());
    const Eigen::VectorXd next =
        residuals.unaryExpr([robust_scale](double r) { return robust_scale / std::max(std::abs(r), robust_scale); });
    const bool is_settled = (next - weights).cwiseAbs().maxCoeff() < kSettledWeight;
    weights = next;
    if (is_settled) break;
  }
  for (Index column = 0; column < design.cols(); ++column)
    solution(column) = norms(column) > 0 ? solution(column) / norms(column) : 0;
  return LinearFit{solution, mean_loss(residuals, robust_scale)};
}

} // namespace mc2::profiler::fit
