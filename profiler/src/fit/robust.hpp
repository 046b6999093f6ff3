#pragma once

#include <optional>
#include <span>
#include <vector>

#include <Eigen/Core>

namespace mc2::profiler::fit {

/// The larger of the two over the smaller, minus 1. This relative error is the same for 3x too fast and 3x too slow.
/// Infinite when either is not positive.
[[nodiscard]] double ratio_error(double fitted, double measured) noexcept;

/// Where a larger share of the points seems wrong, the model is wrong rather than the points.
inline constexpr double kMaxOutlierShare = 0.2;

/// Sum of the errors, each capped at 3 scales: a wrong point costs the same however wrong it is.
[[nodiscard]] double capped_cost(std::span<const double> errors, double scale) noexcept;

/// True for errors of at most 20 scales.
[[nodiscard]] bool is_inlier(double error, double scale) noexcept;

/// is_inlier of every error; all true when that would leave out more than kMaxOutlierShare of the points.
[[nodiscard]] std::vector<bool> find_inliers(std::span<const double> errors, double scale);

/// Basis of a model that is linear in its at most 3 coefficients: one row per point, one column per coefficient.
using Basis = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor, Eigen::Dynamic, 3>;
using Coefficients = Eigen::Matrix<double, Eigen::Dynamic, 1, Eigen::ColMajor, 3, 1>;

/// Non-negative coefficients that describe most of the times and are not affected by the others. Tries exact fits of as
/// many points as there are coefficients, takes the one with the smallest capped_cost(), and refines it by relative
/// least squares (QR) over its inliers. Times are > 0. Empty when no subset of the points determines any coefficient.
/// Source: elemental subsets, Rousseeuw and Leroy, Robust Regression and Outlier Detection, 1987, ch. 5.
[[nodiscard]] std::optional<Coefficients> nonnegative_start(const Basis& basis, std::span<const double> times,
                                                            double scale);

} // namespace mc2::profiler::fit
