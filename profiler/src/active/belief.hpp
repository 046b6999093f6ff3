#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace mc2::profiler::active {

/// One timing of one lane.
struct Observation {
  double rows = 0;
  double time_us = 0;
  int round = 0;
  double weight = 1; ///< visits that it stands for
};

/// Posterior draws of one lane's time at given sizes.
struct LaneDraws {
  std::vector<std::int64_t> sizes; ///< rows, ascending
  Eigen::MatrixXd times_us;        ///< one row per draw, one column per size
  double noise_ratio = 0;          ///< expected relative standard deviation of one visit

  /// Column of a size that is in `sizes`.
  [[nodiscard]] Eigen::Index column(std::int64_t rows) const;
};

/// Belief about one lane's cost per block, docs/cost_model.md: an affine curve times 1 plus a Gaussian process over
/// log rows, seen through noise and a factor common to each round. Immutable.
class LaneBelief {
 public:
  /// @param observations of at least one size, times and rows > 0
  /// @param axis_rows    scale of the vague prior of the affine part
  LaneBelief(std::vector<Observation> observations, double axis_rows);

  /// Posterior mean of the affine part with its deviations, at the most likely scales.
  [[nodiscard]] std::vector<double> mean_us(std::span<const std::int64_t> sizes) const;
  [[nodiscard]] LaneDraws draw(std::vector<std::int64_t> sizes, int count, std::mt19937_64& random) const;
  [[nodiscard]] double noise_ratio() const noexcept { return noise_ratio_; }

 private:
  struct Scales {
    double deviation; ///< of the Gaussian process
    double noise;     ///< of one visit
    double round;     ///< of one round's common factor
    double weight = 0;
  };
  struct Posterior {
    Eigen::VectorXd mean;   ///< relative to the pilot
    Eigen::MatrixXd factor; ///< lower Cholesky factor of the covariance; empty when only the mean was asked for
  };

  void fit_pilot();
  void weigh_scales();
  [[nodiscard]] double pilot_us(double rows) const noexcept { return alpha_us_ + beta_us_ * rows; }
  [[nodiscard]] double covariance(double rows, double other, double deviation) const noexcept;
  [[nodiscard]] Eigen::MatrixXd observed_covariance(const Scales& scales) const;
  [[nodiscard]] Eigen::VectorXd relative_residuals() const;
  [[nodiscard]] Posterior posterior(std::span<const std::int64_t> sizes, const Scales& scales, bool with_factor) const;

  std::vector<Observation> observations_;
  double axis_rows_;
  double alpha_us_ = 0, beta_us_ = 0; ///< of the pilot: the affine curve that deviations are relative to
  std::vector<Scales> scales_;        ///< heaviest first
  double noise_ratio_ = 0;
};

/// Standard normal, the same on every standard library (Box and Muller, 1958).
[[nodiscard]] double draw_normal(std::mt19937_64& random);

} // namespace mc2::profiler::active
