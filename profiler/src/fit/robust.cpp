#include "fit/robust.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include <Eigen/QR>

namespace mc2::profiler::fit {
namespace {

using Index = Eigen::Index;
using Indices = std::vector<Index>;

constexpr double kInlierScales = 20; // a factor of 2 at the default scale
constexpr double kCapScales = 3;
constexpr Index kSubsetPointCount = 8; // 8 points hold 56 triples: enough that many of them have no wrong point

/// Calls visit(indices) for every ascending choice of `count` of the numbers 0..limit-1.
template <typename Visit>
void for_each_subset(Index limit, Index count, Visit visit) {
  if (count > limit) return;
  Indices chosen(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) chosen[static_cast<std::size_t>(i)] = i;
  while (true) {
    visit(chosen);
    Index moving = count;
    while (moving > 0 && chosen[static_cast<std::size_t>(moving - 1)] == limit - count + moving - 1) --moving;
    if (moving == 0) return;
    Index next = ++chosen[static_cast<std::size_t>(moving - 1)];
    for (Index i = moving; i < count; ++i) chosen[static_cast<std::size_t>(i)] = ++next;
  }
}

/// basis(row, column) / time(row): least squares against 1 minimises the sum of squared relative residuals.
Basis relative_basis(const Basis& basis, std::span<const double> times) {
  Basis relative = basis;
  for (Index row = 0; row < basis.rows(); ++row) relative.row(row) /= times[static_cast<std::size_t>(row)];
  return relative;
}

/// Least squares over some rows and columns. Empty when the rows do not determine the columns or a coefficient comes
/// out negative.
std::optional<Coefficients> solve_subset(const Basis& relative, const Indices& rows, const Indices& columns) {
  const auto row_count = static_cast<Index>(rows.size());
  const auto column_count = static_cast<Index>(columns.size());
  Basis part(row_count, column_count);
  Coefficients norms(column_count);
  for (Index column = 0; column < column_count; ++column) {
    for (Index row = 0; row < row_count; ++row) {
      part(row, column) = relative(rows[static_cast<std::size_t>(row)], columns[static_cast<std::size_t>(column)]);
    }
    // Columns of equal length: otherwise the rank decision below would depend on the unit of x.
    norms(column) = part.col(column).norm();
    if (!(norms(column) > 0)) return std::nullopt;
    part.col(column) /= norms(column);
  }
  const Eigen::ColPivHouseholderQR<Basis> qr(part);
  if (qr.rank() < column_count) return std::nullopt;
  const Coefficients solution = qr.solve(Eigen::VectorXd::Ones(row_count)).cwiseQuotient(norms);
  if (!solution.allFinite() || solution.minCoeff() < 0) return std::nullopt;
  Coefficients all = Coefficients::Zero(relative.cols());
  for (Index column = 0; column < column_count; ++column)
    all(columns[static_cast<std::size_t>(column)]) = solution(column);
  return all;
}

std::vector<double> errors_of(const Basis& relative, const Coefficients& coefficients) {
  std::vector<double> errors(static_cast<std::size_t>(relative.rows()));
  for (Index row = 0; row < relative.rows(); ++row) {
    double fitted = 0;
    for (Index column = 0; column < relative.cols(); ++column) fitted += relative(row, column) * coefficients(column);
    errors[static_cast<std::size_t>(row)] = ratio_error(fitted, 1.0);
  }
  return errors;
}

/// At most kSubsetPointCount rows, evenly spread, including both ends.
Indices spread_rows(Index count) {
  const Index chosen = std::min(count, kSubsetPointCount);
  Indices rows;
  for (Index i = 0; i < chosen; ++i) rows.push_back(chosen == 1 ? 0 : i * (count - 1) / (chosen - 1));
  return rows;
}

std::optional<Coefficients> best_exact_fit(const Basis& relative, double scale) {
  const Indices candidates = spread_rows(relative.rows());
  std::optional<Coefficients> best;
  double best_cost = std::numeric_limits<double>::infinity();
  const auto consider = [&](const Indices& rows, const Indices& columns) {
    const std::optional<Coefficients> fitted = solve_subset(relative, rows, columns);
    if (!fitted) return;
    const double cost = capped_cost(errors_of(relative, *fitted), scale);
    if (cost >= best_cost) return;
    best_cost = cost;
    best = fitted;
  };
  for (Index size = 1; size <= relative.cols(); ++size) {
    for_each_subset(relative.cols(), size, [&](const Indices& columns) {
      for_each_subset(static_cast<Index>(candidates.size()), size, [&](Indices rows) {
        for (Index& row : rows) row = candidates[static_cast<std::size_t>(row)];
        consider(rows, columns);
      });
    });
  }
  return best;
}

/// Non-negative least squares over the given rows. Tries every set of columns, of which there are at most 7.
std::optional<Coefficients> nonnegative_least_squares(const Basis& relative, const Indices& rows) {
  std::optional<Coefficients> best;
  double best_sum = std::numeric_limits<double>::infinity();
  for (Index size = 1; size <= relative.cols(); ++size) {
    for_each_subset(relative.cols(), size, [&](const Indices& columns) {
      const std::optional<Coefficients> fitted = solve_subset(relative, rows, columns);
      if (!fitted) return;
      double sum = 0;
      for (const Index row : rows) {
        const double residual = relative.row(row).dot(*fitted) - 1;
        sum += residual * residual;
      }
      if (sum >= best_sum) return;
      best_sum = sum;
      best = fitted;
    });
  }
  return best;
}

} // namespace

double ratio_error(double fitted, double measured) noexcept {
  if (!(fitted > 0) || !(measured > 0)) return std::numeric_limits<double>::infinity();
  return std::max(fitted, measured) / std::min(fitted, measured) - 1;
}

double capped_cost(std::span<const double> errors, double scale) noexcept {
  double cost = 0;
  for (const double error : errors) cost += std::min(error, kCapScales * scale);
  return cost;
}

bool is_inlier(double error, double scale) noexcept { return error <= kInlierScales * scale; }

std::vector<bool> find_inliers(std::span<const double> errors, double scale) {
  std::vector<bool> inliers(errors.size());
  std::size_t outlier_count = 0;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    inliers[i] = is_inlier(errors[i], scale);
    if (!inliers[i]) ++outlier_count;
  }
  if (static_cast<double>(outlier_count) > kMaxOutlierShare * static_cast<double>(errors.size())) {
    inliers.assign(errors.size(), true);
  }
  return inliers;
}

std::optional<Coefficients> nonnegative_start(const Basis& basis, std::span<const double> times, double scale) {
  const Basis relative = relative_basis(basis, times);
  const std::optional<Coefficients> exact = best_exact_fit(relative, scale);
  if (!exact) return std::nullopt;
  const std::vector<bool> inliers = find_inliers(errors_of(relative, *exact), scale);
  Indices rows;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (inliers[i]) rows.push_back(static_cast<Index>(i));
  }
  const std::optional<Coefficients> refined = nonnegative_least_squares(relative, rows);
  return refined ? refined : exact;
}

} // namespace mc2::profiler::fit
