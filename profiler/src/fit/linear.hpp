#pragma once

#include <optional>

#include <Eigen/Core>

namespace mc2::profiler::fit {

inline constexpr int kMaxLinearCoefficients = 6;
inline constexpr int kSearchReweightings = 1;
inline constexpr int kFinalReweightings = 8;

/// Design matrix of a model that is linear in its coefficients: one row per point, one column per coefficient. Every
/// entry is divided by the point's time, so that a perfect fit gives 1 in every row.
using RelativeDesign =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor, Eigen::Dynamic, kMaxLinearCoefficients>;
using LinearCoefficients = Eigen::Matrix<double, Eigen::Dynamic, 1, Eigen::ColMajor, kMaxLinearCoefficients, 1>;

struct LinearFit {
  LinearCoefficients coefficients;
  double cost = 0; ///< mean Huber loss of the relative residuals
};

/// Huber's loss: half the square up to `scale`, linear beyond.
[[nodiscard]] double huber_loss(double residual, double scale) noexcept;

/// Non-negative coefficients of least mean Huber loss: the active-set method of Lawson and Hanson (Solving Least
/// Squares Problems, 1974, ch. 23) on the normal equations, reweighted where residuals exceed `robust_scale`.
/// This is far cheaper than Ceres and meant for searches that try thousands of designs with few reweightings.
/// @param reweighting_count  most reweightings; stops earlier when the weights settle
/// Empty when every column is 0 or an entry is not finite.
[[nodiscard]] std::optional<LinearFit> fit_nonnegative(const RelativeDesign& design, double robust_scale,
                                                       int reweighting_count);

} // namespace mc2::profiler::fit
