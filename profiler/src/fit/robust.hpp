#pragma once

#include <optional>
#include <span>
#include <vector>

#include <Eigen/Core>

namespace mc2::profiler::fit {

/// Larger / smaller of the two, minus 1: a relative error that punishes 3x too fast like 3x too slow. Infinite when
/// either is not positive.
[[nodiscard]] double ratio_error(double fitted, double measured) noexcept;

/// With more wrong points than this share, it is the model that is wrong.
inline constexpr double kMaxOutlierShare = 0.2;

/// Sum of the errors, each counted up to 3 scales: a wrong point costs the same however wrong it is.
[[nodiscard]] double capped_cost(std::span<const double> errors, double scale) noexcept;

/// True for errors of at most 20 scales.
[[nodiscard]] bool is_inlier(double error, double scale) noexcept;

/// is_inlier of every error; all true when that would leave out more than one point in five,
/// because then the model is wrong rather than the points.
[[nodiscard]] std::vector<bool> find_inliers(std::span<const double> errors, double scale);

/// A model that is linear in its at most 3 coefficients: one row per point, one column per coefficient.
using Basis = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor, Eigen::Dynamic, 3>;
using Coefficients = Eigen::Matrix<double, Eigen::Dynamic, 1, Eigen::ColMajor, 3, 1>;

/// Non-negative coefficients that describe most of the times, unmoved by the others: the exact fit of as few points
/// as there are coefficients with the smallest capped cost, refined by relative least squares (QR) over its inliers.
/// Source: elemental subsets, Rousseeuw and Leroy, Robust Regression and Outlier Detection, 1987, ch. 5.
/// Empty when no subset of the points determines any coefficient. Times are > 0.
[[nodiscard]] std::optional<Coefficients> nonnegative_start(const Basis& basis, std::span<const double> times,
                                                            double scale);

} // namespace mc2::profiler::fit
