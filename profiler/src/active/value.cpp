#include "active/value.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mc2::profiler::active {
namespace {

Eigen::VectorXd centred(const Eigen::VectorXd& values) { return values.array() - values.mean(); }

double mean_square(const Eigen::VectorXd& values) { return values.squaredNorm() / static_cast<double>(values.size()); }

/// Takes what `outcome` explains out of every column; `outcome` is centred and has the variance given.
void take_out(Eigen::Ref<Eigen::MatrixXd> columns, const Eigen::VectorXd& outcome, double variance) {
  const Eigen::RowVectorXd means = columns.colwise().mean();
  const Eigen::RowVectorXd slopes =
      outcome.transpose() * (columns.rowwise() - means) / (static_cast<double>(columns.rows()) * variance);
  columns.noalias() -= outcome * slopes;
}

} // namespace

RegretLedger::RegretLedger(Draws draws, Eigen::Index incumbent)
    : draws_(std::move(draws)),
      makespans_us_(draws_.makespans_us),
      means_(makespans_us_.colwise().mean().transpose()),
      best_shares_(Eigen::VectorXd::Zero(means_.size())),
      incumbent_(incumbent) {
  means_.minCoeff(&best_);
  if (incumbent_ < 0) incumbent_ = best_;
  for (Eigen::Index d = 0; d < makespans_us_.rows(); ++d) {
    Eigen::Index winner = 0;
    clairvoyant_us_ += makespans_us_.row(d).minCoeff(&winner);
    best_shares_(winner) += 1;
  }
  const auto count = static_cast<double>(makespans_us_.rows());
  clairvoyant_us_ /= count;
  best_shares_ /= count;
}

/// The assumed measurements move each draw's expected makespans by what they explained of it.
double RegretLedger::regret_after_us() const {
  const Eigen::MatrixXd explained = makespans_us_ - draws_.makespans_us;
  const Eigen::MatrixXd expected = explained.rowwise() + means_.transpose();
  return std::max(expected.rowwise().minCoeff().mean() - clairvoyant_us_, 0.0);
}

Signal RegretLedger::time_signal(ActiveTarget lane, std::int64_t rows) const {
  const LaneDraws& times = lane == ActiveTarget::Matmul ? draws_.matmul : draws_.collective;
  const Eigen::VectorXd values = times.times_us.col(times.column(rows));
  return {values, times.noise_ratio * values.mean()};
}

/// A slow-down is the ratio of two timings.
Signal RegretLedger::slowdown_signal(ActiveTarget lane) const {
  const bool is_matmul = lane == ActiveTarget::Matmul;
  const Eigen::VectorXd& values = is_matmul ? draws_.matmul_slowdown : draws_.collective_slowdown;
  const double noise_ratio = is_matmul ? draws_.matmul.noise_ratio : draws_.collective.noise_ratio;
  return {values, std::sqrt(2.0) * noise_ratio * values.mean()};
}

Eigen::VectorXd RegretLedger::movement(const Signal& signal) const {
  const Eigen::VectorXd deviations = centred(signal.values);
  const double variance = mean_square(deviations) + signal.noise * signal.noise;
  if (!(variance > 0)) return Eigen::VectorXd::Zero(means_.size());
  const Eigen::RowVectorXd centres = draws_.makespans_us.colwise().mean();
  return ((draws_.makespans_us.rowwise() - centres).transpose() * deviations) /
         (static_cast<double>(deviations.size()) * std::sqrt(variance));
}

double RegretLedger::value_us(const Signal& signal) const {
  const Eigen::VectorXd deviations = centred(signal.values);
  const double spread = std::sqrt(mean_square(deviations));
  if (!(spread > 0)) return 0;
  const Eigen::VectorXd moves = movement(signal);
  double mean_of_shortest = 0;
  for (Eigen::Index d = 0; d < deviations.size(); ++d)
    mean_of_shortest += (means_ + moves * (deviations(d) / spread)).minCoeff();
  return std::max(means_.minCoeff() - mean_of_shortest / static_cast<double>(deviations.size()), 0.0);
}

double RegretLedger::narrowing_us(const Signal& signal) const {
  const Eigen::VectorXd moves = movement(signal);
  return best_shares_.dot((moves.array() - moves(best_)).abs().matrix());
}

void RegretLedger::assume(const Signal& signal, std::mt19937_64& random) {
  Eigen::VectorXd outcome = signal.values;
  for (Eigen::Index d = 0; d < outcome.size(); ++d) outcome(d) += signal.noise * draw_normal(random);
  outcome = centred(outcome);
  const double variance = mean_square(outcome);
  if (!(variance > 0)) return;
  take_out(draws_.makespans_us, outcome, variance);
  take_out(draws_.matmul.times_us, outcome, variance);
  take_out(draws_.collective.times_us, outcome, variance);
  take_out(draws_.matmul_slowdown, outcome, variance);
  take_out(draws_.collective_slowdown, outcome, variance);
}

} // namespace mc2::profiler::active
