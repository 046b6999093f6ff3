#include "active/belief.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <utility>

#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler::active {
namespace {

// Scales that are tried, relative to the time: from a clock's own error to a curve or machine of no use.
constexpr std::array kDeviations{0.003, 0.01, 0.03, 0.08, 0.2};
constexpr std::array kNoises{0.002, 0.007, 0.02, 0.06, 0.15};
constexpr std::array kRounds{0.0, 0.05, 0.2};

// Deviations from an affine curve: a bend over about a factor of 4 in size, and steps from tiles and caches.
constexpr double kBendLogLength = 1.4;
constexpr double kStepLogLength = 0.3;
constexpr double kStepShare = 0.3;

/// Standard deviation of the affine part's coefficients, relative to the pilot's time of the whole axis.
constexpr double kVagueness = 1.0;
constexpr double kJitter = 1e-9;
constexpr std::size_t kMaxObservationCount = 96;
constexpr std::size_t kMaxScaleCount = 16;

/// One observation per size, where there are too many to treat one by one; rounds average out in them.
std::vector<Observation> merged_by_size(const std::vector<Observation>& observations) {
  std::map<double, std::vector<double>> times;
  for (const Observation& o : observations) times[o.rows].push_back(o.time_us);
  std::vector<Observation> merged;
  int round = 0;
  for (const auto& [rows, of_size] : times)
    merged.push_back({rows, quantile(of_size, 0.5), round++, static_cast<double>(of_size.size())});
  if (merged.size() <= kMaxObservationCount) return merged;
  std::vector<Observation> thinned;
  for (std::size_t i = 0; i < kMaxObservationCount; ++i)
    thinned.push_back(merged[i * (merged.size() - 1) / (kMaxObservationCount - 1)]);
  return thinned;
}

} // namespace

double draw_normal(std::mt19937_64& random) {
  constexpr double kScale = 1.0 / 18446744073709551616.0; // 2^-64
  const double u = (static_cast<double>(random()) + 0.5) * kScale, v = static_cast<double>(random()) * kScale;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

Eigen::Index LaneDraws::column(std::int64_t rows) const {
  return std::lower_bound(sizes.begin(), sizes.end(), rows) - sizes.begin();
}

LaneBelief::LaneBelief(std::vector<Observation> observations, double axis_rows)
    : observations_(std::move(observations)), axis_rows_(axis_rows) {
  if (observations_.size() > kMaxObservationCount) observations_ = merged_by_size(observations_);
  fit_pilot();
  weigh_scales();
}

/// Least squares of relative residuals, kept positive and rising: deviations need something to be relative to.
void LaneBelief::fit_pilot() {
  double s11 = 0, s1x = 0, sxx = 0, s1y = 0, sxy = 0, log_rate = 0, weight_sum = 0;
  for (const Observation& o : observations_) {
    const double one = 1 / o.time_us, x = o.rows / axis_rows_ / o.time_us;
    s11 += o.weight * one * one;
    s1x += o.weight * one * x;
    sxx += o.weight * x * x;
    s1y += o.weight * one;
    sxy += o.weight * x;
    log_rate += o.weight * std::log(o.time_us / o.rows);
    weight_sum += o.weight;
  }
  const double determinant = s11 * sxx - s1x * s1x;
  const double rate = std::exp(log_rate / weight_sum);
  alpha_us_ = 0;
  beta_us_ = rate;
  if (determinant <= 1e-12 * s11 * sxx) return;
  const double alpha = (sxx * s1y - s1x * sxy) / determinant;
  const double beta = (s11 * sxy - s1x * s1y) / determinant / axis_rows_;
  if (alpha >= 0 && beta >= 0) {
    alpha_us_ = alpha;
    beta_us_ = beta;
  } else if (beta < 0) {
    alpha_us_ = s1y / s11;
    beta_us_ = 0;
  } else {
    beta_us_ = sxy / sxx / axis_rows_;
  }
}

double LaneBelief::covariance(double rows, double other, double deviation) const noexcept {
  const double scale_us = kVagueness * pilot_us(axis_rows_);
  const double u = rows / axis_rows_, v = other / axis_rows_;
  const double affine = scale_us * scale_us * (1 + u * v) / (pilot_us(rows) * pilot_us(other));
  const double distance = std::abs(std::log(rows / other));
  const double bend = std::exp(-0.5 * distance * distance / (kBendLogLength * kBendLogLength));
  const double step = std::exp(-distance / kStepLogLength);
  return affine + deviation * deviation * ((1 - kStepShare) * bend + kStepShare * step);
}

Eigen::MatrixXd LaneBelief::observed_covariance(const Scales& scales) const {
  const auto count = static_cast<Eigen::Index>(observations_.size());
  Eigen::MatrixXd result(count, count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const Observation& a = observations_[static_cast<std::size_t>(i)];
    for (Eigen::Index j = 0; j <= i; ++j) {
      const Observation& b = observations_[static_cast<std::size_t>(j)];
      const double same_round = a.round == b.round ? scales.round * scales.round : 0;
      result(i, j) = result(j, i) = covariance(a.rows, b.rows, scales.deviation) + same_round;
    }
    result(i, i) += scales.noise * scales.noise / a.weight;
  }
  return result;
}

Eigen::VectorXd LaneBelief::relative_residuals() const {
  Eigen::VectorXd residuals(static_cast<Eigen::Index>(observations_.size()));
  for (Eigen::Index i = 0; i < residuals.size(); ++i) {
    const Observation& o = observations_[static_cast<std::size_t>(i)];
    residuals(i) = o.time_us / pilot_us(o.rows) - 1;
  }
  return residuals;
}

/// Every combination of scales by its marginal likelihood; the heaviest are kept, which bounds the time of a draw.
void LaneBelief::weigh_scales() {
  const Eigen::VectorXd residuals = relative_residuals();
  std::vector<double> log_likelihoods;
  for (const double deviation : kDeviations)
    for (const double noise : kNoises)
      for (const double round : kRounds) {
        const Scales scales{deviation, noise, round};
        const Eigen::LLT<Eigen::MatrixXd> factor(observed_covariance(scales));
        const double fit = residuals.dot(factor.solve(residuals));
        const double log_determinant = 2 * factor.matrixLLT().diagonal().array().log().sum();
        scales_.push_back(scales);
        log_likelihoods.push_back(-0.5 * (fit + log_determinant));
      }
  const double best = *std::max_element(log_likelihoods.begin(), log_likelihoods.end());
  for (std::size_t i = 0; i < scales_.size(); ++i) scales_[i].weight = std::exp(log_likelihoods[i] - best);
  std::stable_sort(scales_.begin(), scales_.end(),
                   [](const Scales& a, const Scales& b) { return a.weight > b.weight; });
  scales_.resize(std::min(scales_.size(), kMaxScaleCount));
  double sum = 0;
  for (const Scales& scales : scales_) sum += scales.weight;
  double variance = 0;
  for (Scales& scales : scales_) {
    scales.weight /= sum;
    variance += scales.weight * scales.noise * scales.noise;
  }
  noise_ratio_ = std::sqrt(variance);
}

LaneBelief::Posterior LaneBelief::posterior(std::span<const std::int64_t> sizes, const Scales& scales,
                                            bool with_factor) const {
  const auto size_count = static_cast<Eigen::Index>(sizes.size());
  const auto count = static_cast<Eigen::Index>(observations_.size());
  const auto rows_of = [&](Eigen::Index i) { return static_cast<double>(sizes[static_cast<std::size_t>(i)]); };
  Eigen::MatrixXd cross(count, size_count);
  for (Eigen::Index i = 0; i < count; ++i)
    for (Eigen::Index j = 0; j < size_count; ++j)
      cross(i, j) = covariance(observations_[static_cast<std::size_t>(i)].rows, rows_of(j), scales.deviation);
  const Eigen::LLT<Eigen::MatrixXd> observed(observed_covariance(scales));
  Posterior result{cross.transpose() * observed.solve(relative_residuals()), {}};
  if (!with_factor) return result;
  Eigen::MatrixXd covariances(size_count, size_count);
  for (Eigen::Index i = 0; i < size_count; ++i)
    for (Eigen::Index j = 0; j <= i; ++j)
      covariances(i, j) = covariances(j, i) = covariance(rows_of(i), rows_of(j), scales.deviation);
  observed.matrixL().solveInPlace(cross);
  const double jitter = kJitter * covariances.diagonal().maxCoeff();
  covariances.noalias() -= cross.transpose() * cross;
  covariances.diagonal().array() += jitter;
  Eigen::LLT<Eigen::MatrixXd> factor(covariances);
  // Rounding can leave a covariance of near-equal sizes slightly indefinite.
  for (double more = 10 * jitter; factor.info() != Eigen::Success && more < 1; more *= 10) {
    covariances.diagonal().array() += more;
    factor.compute(covariances);
  }
  result.factor = factor.matrixL();
  return result;
}

std::vector<double> LaneBelief::mean_us(std::span<const std::int64_t> sizes) const {
  const Posterior relative = posterior(sizes, scales_.front(), false);
  std::vector<double> result;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double deviation = relative.mean(static_cast<Eigen::Index>(i));
    result.push_back(pilot_us(static_cast<double>(sizes[i])) * std::max(1 + deviation, 0.05));
  }
  return result;
}

/// Draws are shared out over the scales in proportion to their weights.
LaneDraws LaneBelief::draw(std::vector<std::int64_t> sizes, int count, std::mt19937_64& random) const {
  LaneDraws draws{std::move(sizes), Eigen::MatrixXd(count, 0), noise_ratio_};
  const auto size_count = static_cast<Eigen::Index>(draws.sizes.size());
  draws.times_us.resize(count, size_count);
  Eigen::VectorXd pilot(size_count), normal(size_count);
  for (Eigen::Index j = 0; j < size_count; ++j)
    pilot(j) = pilot_us(static_cast<double>(draws.sizes[static_cast<std::size_t>(j)]));
  std::vector<int> order(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
  // Two lanes' draws must not be paired by their scales.
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  double cumulated = 0;
  int next = 0;
  for (const Scales& scales : scales_) {
    cumulated += scales.weight;
    const int end = &scales == &scales_.back() ? count : static_cast<int>(std::lround(cumulated * count));
    if (next >= end) continue;
    const Posterior relative = posterior(draws.sizes, scales, true);
    for (; next < end; ++next) {
      for (Eigen::Index j = 0; j < size_count; ++j) normal(j) = draw_normal(random);
      const Eigen::ArrayXd deviation = (relative.mean + relative.factor * normal).array();
      draws.times_us.row(order[static_cast<std::size_t>(next)]) = (pilot.array() * (1 + deviation).max(0.05)).matrix();
    }
  }
  return draws;
}

} // namespace mc2::profiler::active
