#pragma once

#include <Eigen/Core>
#include <algorithm>

#include "active/plans.hpp"

namespace mc2::profiler::active {

/// What a measurement would show in every draw: its time, or a slow-down.
struct Signal {
  Eigen::VectorXd values;
  double noise = 0; ///< standard deviation of the measurement, in the unit of the values
};

/// Expected loss of a choice among plans, and how measurements that have not been made would change it. Holds the
/// makespans of the draws and what is left of their spread after each measurement that is assumed.
class RegretLedger {
 public:
  RegretLedger(Draws draws, Eigen::Index incumbent);

  [[nodiscard]] Eigen::Index best() const noexcept { return best_; }
  [[nodiscard]] double expected_us(Eigen::Index plan) const { return means_(plan); }
  /// Of the incumbent, if nothing more were measured.
  [[nodiscard]] double regret_us() const { return std::max(means_(incumbent_) - clairvoyant_us_, 0.0); }
  /// Of the plan chosen once every assumed measurement is made.
  [[nodiscard]] double regret_after_us() const;
  /// Share of draws in which each plan is the best.
  [[nodiscard]] const Eigen::VectorXd& best_shares() const noexcept { return best_shares_; }

  [[nodiscard]] Signal time_signal(ActiveTarget lane, std::int64_t rows) const;
  [[nodiscard]] Signal slowdown_signal(ActiveTarget lane) const;

  /// Expected fall of the shortest expected makespan, us, >= 0.
  [[nodiscard]] double value_us(const Signal& signal) const;
  /// By how much the spread of the differences from the best plan would narrow, us: ranks where no value is above 0.
  [[nodiscard]] double narrowing_us(const Signal& signal) const;
  /// Takes a measurement as made: what it explains is taken out of everything that is drawn.
  void assume(const Signal& signal, std::mt19937_64& random);

 private:
  /// Movement of each plan's expected makespan for one standard deviation of the outcome.
  [[nodiscard]] Eigen::VectorXd movement(const Signal& signal) const;

  Draws draws_;                  ///< after `assume`: what is left uncertain
  Eigen::MatrixXd makespans_us_; ///< as drawn
  Eigen::VectorXd means_;
  Eigen::VectorXd best_shares_;
  Eigen::Index incumbent_;
  Eigen::Index best_ = 0;
  double clairvoyant_us_ = 0; ///< mean over draws of the shortest makespan
};

} // namespace mc2::profiler::active
