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

/// Number of factors, in the order of recalibration: compute slow-down, communication slow-down, fixed cost of a block.
inline constexpr int kFactorCount = 3;
using FactorVector = Eigen::Matrix<double, kFactorCount, 1>;

/// The scale on which the factors of a variant are measured: distances from the profiled values in standard deviations
/// of the prior.
struct FactorScale {
  double compute = 1, communication = 1, fixed_us = 0; ///< profiled values
  double slowdown_spread = 0.1;                        ///< prior standard deviation of a slow-down's logarithm
  double fixed_scale_us = 1;                           ///< prior standard deviation of the fixed cost

  /// The model's factors on this scale.
  [[nodiscard]] FactorVector standard(const planner::CostModel& model, const planner::Variant& variant) const;
  /// The model with its factors set to these values of the scale.
  [[nodiscard]] planner::CostModel model_at(planner::CostModel model, const planner::Variant& variant,
                                            const FactorVector& standard) const;
};

/// One lane of one cut whose blocks were timed.
struct TimedLane {
  std::size_t cut = 0; ///< index of the cut
  planner::Lane lane = planner::Lane::Compute;
};

/// A Gaussian process over the cuts of one variant; see refine(). Its values are the logarithms of the cuts' times and,
/// for some cuts, of the sums over a lane's blocks.
class CutPosterior {
 public:
  struct Belief {
    double log_us = 0, deviation = 0;
  };
  struct Observation {
    std::size_t time = 0; ///< index of a cut, or time_of() a lane
    double log_ratio = 0; ///< logarithm of measured / predicted by the recalibrated model
    double variance = 0;
  };

  /// @param model  recalibrated; `scale` holds the profiled values
  /// @param lanes  the lanes whose block times observe() will get
  /// Errors: as planner::predict_makespans.
  [[nodiscard]] static Result<CutPosterior> make(const planner::OpSpec& op, const planner::CostModel& model,
                                                 const planner::Variant& variant, std::vector<planner::Cut> cuts,
                                                 std::span<const TimedLane> lanes, const FactorScale& scale);

  void observe(std::span<const Observation> seen);
  /// An observed cut compared with its expectation from all other observations (left out one at a time; Rasmussen and
  /// Williams, Gaussian Processes for Machine Learning, 2006, §5.4.2).
  struct Surprise {
    std::size_t cut = 0;
    double log_ratio = 0;          ///< logarithm of observed / expected
    double deviations = 0;         ///< log_ratio in standard deviations
    double log_ratio_to_least = 0; ///< logarithm of observed / the shortest time that is believed
  };
  [[nodiscard]] std::vector<Surprise> surprises() const;
  /// Observes this cut with its expected time, as if it had been run.
  void pretend(std::size_t cut, double variance);

  [[nodiscard]] std::span<const planner::Cut> cuts() const noexcept { return cuts_; }
  /// Observation::time of a lane, given by its index in the lanes of make().
  [[nodiscard]] std::size_t time_of(std::size_t lane) const noexcept { return cuts_.size() + lane; }
  [[nodiscard]] Belief belief(std::size_t cut) const;
  /// The remaining standard deviation of each factor; 1 is that of the prior.
  [[nodiscard]] FactorVector factor_deviations() const;

 private:
  /// Sensitivity of a time to an error of one lane's curve at one block length, times the spread of that error.
  struct LengthWeight {
    double log_rows = 0;
    bool is_compute = false;
    double weight = 0;
  };

  /// One value of the process: the time of a cut, or the sum over its blocks on one lane.
  struct Time {
    double log_us = 0;                 ///< predicted by the recalibrated model
    FactorVector slopes;               ///< change of log_us per standard deviation of each factor
    std::optional<planner::Lane> lane; ///< the lane whose blocks are summed; unset for the time of the cut
    Eigen::Vector3d shape;             ///< shape of the cut
    std::vector<LengthWeight> lengths;
  };

  /// @param lane  the lane whose blocks are summed; unset for the time of the cut
  [[nodiscard]] static Result<std::vector<LengthWeight>> lengths_of(const planner::OpSpec& op,
                                                                    const planner::CostModel& model,
                                                                    const planner::Variant& variant,
                                                                    const planner::Cut& cut,
                                                                    std::optional<planner::Lane> lane);
  [[nodiscard]] double covariance(std::size_t a, std::size_t b) const;
  void solve();

  std::vector<planner::Cut> cuts_;
  Eigen::VectorXd least_log_us_; ///< logarithm of the shortest time that is believed, for each cut
  std::vector<Time> times_;      ///< one for each cut, then one for each lane
  FactorVector at_;              ///< factors around which the process is linear
  std::vector<Observation> seen_;
  Eigen::LLT<Eigen::MatrixXd> factored_;
  Eigen::VectorXd weights_;
};

} // namespace mc2::profiler
