#pragma once

#include <Eigen/Dense>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/profiler/recalibrate.hpp"

namespace mc2::profiler {

/// What recalibration fits, in its order: both slow-downs and the fixed cost of a block.
inline constexpr int kFactorCount = 3;
using FactorVector = Eigen::Matrix<double, kFactorCount, 1>;

/// The factors of a variant, in units of their prior's standard deviations from what was profiled.
struct FactorScale {
  double compute = 1, communication = 1, fixed_us = 0; ///< as profiled
  double slowdown_spread = 0.1;                        ///< standard deviation of a slow-down's logarithm
  double fixed_scale_us = 1;

  [[nodiscard]] FactorVector standard(const planner::CostModel& model, const planner::Variant& variant) const;
  /// The model with the factors so many standard deviations from what was profiled.
  [[nodiscard]] planner::CostModel model_at(planner::CostModel model, const planner::Variant& variant,
                                            const FactorVector& standard) const;
};

/// One lane of one cut, whose blocks were timed.
struct TimedLane {
  std::size_t cut = 0; ///< its index
  planner::Lane lane = planner::Lane::Compute;
};

/// A Gaussian process over the cuts of one variant, in logarithms of their times and of what the blocks of some of them
/// take together; see refine().
class CutPosterior {
 public:
  struct Belief {
    double log_us = 0, deviation = 0;
  };
  struct Observation {
    std::size_t time = 0; ///< index of a cut, or as time_of() says
    double log_ratio = 0; ///< measured over what the recalibrated model predicts for it
    double variance = 0;
  };

  /// @param model  recalibrated; `scale` says from where
  /// @param lanes  that observe() will speak of
  /// Errors: as planner::predict_makespans.
  [[nodiscard]] static Result<CutPosterior> make(const planner::OpSpec& op, const planner::CostModel& model,
                                                 const planner::Variant& variant, std::vector<planner::Cut> cuts,
                                                 std::span<const TimedLane> lanes, const FactorScale& scale);

  void observe(std::span<const Observation> seen);
  /// An observed cut against what all other observations say of it (left out one at a time; Rasmussen and Williams,
  /// Gaussian Processes for Machine Learning, 2006, §5.4.2).
  struct Surprise {
    std::size_t cut = 0;
    double log_ratio = 0;          ///< observed over expected
    double deviations = 0;         ///< the same in standard deviations
    double log_ratio_to_least = 0; ///< observed over the least that is believed
  };
  [[nodiscard]] std::vector<Surprise> surprises() const;
  /// As if this cut had been run and had come out as expected.
  void pretend(std::size_t cut, double variance);

  [[nodiscard]] std::span<const planner::Cut> cuts() const noexcept { return cuts_; }
  /// What the lanes of make() are observed as, by their index there.
  [[nodiscard]] std::size_t time_of(std::size_t lane) const noexcept { return cuts_.size() + lane; }
  [[nodiscard]] Belief belief(std::size_t cut) const;
  /// Of each factor: the standard deviation that is left of 1.
  [[nodiscard]] FactorVector factor_deviations() const;

 private:
  /// How a time answers to an error of a lane's curve at one block length, times that error's spread.
  struct LengthWeight {
    double log_rows = 0;
    bool is_compute = false;
    double weight = 0;
  };

  /// Of a cut, or of its blocks on one lane.
  struct Time {
    double log_us = 0;   ///< by the recalibrated model
    FactorVector slopes; ///< of log_us, per standard deviation
    std::optional<planner::Lane> lane;
    Eigen::Vector3d shape; ///< of the cut
    std::vector<LengthWeight> lengths;
  };

  /// @param lane  of whose blocks together; unset: of the cut
  [[nodiscard]] static Result<std::vector<LengthWeight>> lengths_of(const planner::OpSpec& op,
                                                                    const planner::CostModel& model,
                                                                    const planner::Variant& variant,
                                                                    const planner::Cut& cut,
                                                                    std::optional<planner::Lane> lane);
  [[nodiscard]] double covariance(std::size_t a, std::size_t b) const;
  void solve();

  std::vector<planner::Cut> cuts_;
  Eigen::VectorXd least_log_us_; ///< of each cut: no time is believed to be shorter
  std::vector<Time> times_;      ///< of each cut, then of each lane
  FactorVector at_;              ///< where it is linear around
  std::vector<Observation> seen_;
  Eigen::LLT<Eigen::MatrixXd> factored_;
  Eigen::VectorXd weights_;
};

} // namespace mc2::profiler
