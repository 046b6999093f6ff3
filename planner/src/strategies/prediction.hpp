#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mc2/planner/planner.hpp"
#include "strategies/routed_rows.hpp"

namespace mc2::planner::strategies {

/// Whether a check asks to stop. Null and empty ones never do.
[[nodiscard]] inline bool says_stop(const StopCheck* check) { return check != nullptr && *check && (*check)(); }

/// The largest share of serial that running both lanes at once can hide.
inline constexpr double kMostHidden = 0.5;

class BlockPassing;

/// A part of the reason of a makespan whose blocks were measured, but whose serial was not.
inline constexpr std::string_view kSerialExtrapolated = "serial, and so the benefit, is extrapolated";

/// The uncut matmul and the uncut collective.
struct SerialParts {
  double compute_us = 0, communication_us = 0;
};

/// One checked question, with everything that each strategy needs.
struct Problem {
  const OpSpec& op;
  const CostModel& model;
  const PlanOptions& options;
  const OpTraits& traits;
  std::int64_t rows; ///< length of the cut axis
  double message_bytes_per_unit;
  const StopCheck* stop_check = nullptr;    ///< null: nobody may stop it
  double serial_compute_ratio = 1;          ///< planner::serial_compute_ratio()
  const VariantCost* serial_cost = nullptr; ///< of the variant whose serial run is known; null: none
  double known_serial_compute_us = 0;       ///< time of that run's matmul
  /// Whether a serial run multiplies all rows in one matmul, after they have arrived, with a curve that is one of such
  /// matmuls: for kinds with a local part, on a machine that mc2 does not run on.
  bool multiplies_at_once = false;
  bool requires_significance = true;                  ///< the option; false for a model with an analytic curve
  std::shared_ptr<const RoutedRows> routed = nullptr; ///< set if the options have counts

  /// Whether to stop. A search may then return anything legal, because its result is thrown away.
  [[nodiscard]] bool is_stopped() const { return says_stop(stop_check); }

  [[nodiscard]] double compute_us(const VariantCost& cost, double block_rows) const noexcept {
    return cost.compute.curve.time_us(block_rows);
  }
  [[nodiscard]] double compute_us(const VariantCost& cost, std::int64_t block_rows) const noexcept {
    return compute_us(cost, static_cast<double>(block_rows));
  }
  [[nodiscard]] double communication_us(const VariantCost& cost, double block_rows) const noexcept {
    return cost.communication.curve.time_us(block_rows * message_bytes_per_unit);
  }
  [[nodiscard]] double communication_us(const VariantCost& cost, std::int64_t block_rows) const noexcept {
    return communication_us(cost, static_cast<double>(block_rows));
  }
  /// The uncut parts of a serial run, each with its lane's start; with unequal splits, those of the rank that takes
  /// longest.
  [[nodiscard]] SerialParts serial_parts(const VariantCost& cost) const {
    SerialParts parts =
        routed ? routed_serial_parts(cost) : SerialParts{full_compute_us(cost), communication_us(cost, rows)};
    if (&cost != serial_cost) parts.compute_us += cost.compute.start_us; // the time of a known run holds its start
    parts.communication_us += cost.communication.start_us;
    return parts;
  }
  /// Whether serial may be predicted by this variant. If a variant's serial run was measured, only by that one: beside
  /// a measurement, other variants' serial times are guesses.
  [[nodiscard]] bool may_be_serial(const VariantCost& cost) const noexcept {
    return serial_cost == nullptr || serial_cost == &cost;
  }
  /// The uncut matmul, the local part included, then the uncut collective.
  [[nodiscard]] double serial_us(const VariantCost& cost) const {
    const SerialParts parts = serial_parts(cost);
    return parts.compute_us + parts.communication_us;
  }
  /// Time of a block on the kind's first or second lane. If the lanes hand work over, i.e. in a cut plan or if blocks
  /// pass in slices, the curve's time is multiplied by LaneCost::block_factor(), and the lane's fixed cost is added.
  [[nodiscard]] double lane_us(const VariantCost& cost, bool is_first_lane, double block_rows,
                               bool hands_over) const noexcept;
  [[nodiscard]] double lane_us(const VariantCost& cost, bool is_first_lane, std::int64_t block_rows,
                               bool hands_over) const noexcept {
    return lane_us(cost, is_first_lane, static_cast<double>(block_rows), hands_over);
  }
  /// A number of each lane, in the order in which the kind's blocks pass the lanes.
  [[nodiscard]] Slowdown in_lane_order(double compute, double communication) const noexcept {
    return traits.first_lane == Lane::Compute ? Slowdown{compute, communication} : Slowdown{communication, compute};
  }
  /// The slow-down factors of the kind's first and second lane.
  [[nodiscard]] Slowdown slowdown(const VariantCost& cost) const noexcept;
  /// The relative 90 % intervals of the kind's first and second lane.
  [[nodiscard]] Slowdown relative_intervals(const VariantCost& cost) const noexcept;
  /// The relative 90 % intervals without the part that the model's spread has added.
  [[nodiscard]] Slowdown own_intervals(const VariantCost& cost) const noexcept;
  /// CostModel::spread; zero for a variant with an analytic curve, whose interval already says how far off it is.
  [[nodiscard]] SpeedSpread spread(const VariantCost& cost) const noexcept {
    const bool is_analytic = cost.compute.curve.is_analytic || cost.communication.curve.is_analytic;
    return is_analytic ? SpeedSpread() : model.spread;
  }
  /// Time of a rank's local part with unequal splits.
  [[nodiscard]] double local_us(const VariantCost& cost, int rank) const;

  /// The rows of all ranks together in the unit of the cut axis, in which the other ranks' rows are `rows`.
  [[nodiscard]] double all_rows() const noexcept {
    return static_cast<double>(rows) * op.world_size / (op.world_size - 1);
  }

 private:
  /// Time of the uncut matmul with equal splits, without its lane's start unless the serial run is known.
  [[nodiscard]] double full_compute_us(const VariantCost& cost) const {
    if (&cost == serial_cost) return known_serial_compute_us;
    if (multiplies_at_once && !cost.local_compute) return compute_us(cost, all_rows());
    return serial_compute_ratio * (cost.local_us(op) + compute_us(cost, rows));
  }
  [[nodiscard]] SerialParts routed_serial_parts(const VariantCost& cost) const;
};

/// Errors: as OpSpec::validate, as CostModel::validate under "model."; OutOfRange if the model does not answer for the
/// operator.
[[nodiscard]] Result<void> check_question(const OpSpec& op, const CostModel& model);

/// The question must have passed check_question(). All arguments must outlive the problem.
[[nodiscard]] Problem make_problem(const OpSpec& op, const CostModel& model, const PlanOptions& options,
                                   const StopCheck* stop_check = nullptr);

/// The error of a question that was stopped.
[[nodiscard]] Error stopped_error();

/// The variant with the shortest uncut matmul + collective, of those that may be serial: what a plan has to beat.
[[nodiscard]] const VariantCost& best_serial_variant(const Problem& problem) noexcept;

/// The cost of a variant, which the model must have.
[[nodiscard]] const VariantCost& cost_of(const Problem& problem, const Variant& variant);

/// How far a makespan moves when each lane's times are stretched by 1 + `sign` times the lane's interval: the lanes'
/// errors are independent, so their effects add as squares. docs/cost_model.md §5.
/// @param stretched_us makespan as a function of the factors on the first and the second lane's times
/// @param us           stretched_us(1, 1)
template <typename StretchedUs>
[[nodiscard]] double stretch_effect_us(const StretchedUs& stretched_us, double us, const Slowdown& interval,
                                       double sign) {
  return std::hypot(stretched_us(1 + sign * interval.first, 1.0) - us,
                    stretched_us(1.0, 1 + sign * interval.second) - us);
}

/// How far the 90 % interval of a makespan reaches to one side. One estimate joins the effects of the lanes' intervals
/// and the spread of the overlap. Whole runs are often off by less than that: if their spread is known, a second
/// estimate joins it with the effects of the curves' own intervals, and the narrower estimate counts.
/// docs/cost_model.md §14.
class HalfWidth {
 public:
  /// @param overlaps  whether the run has both lanes busy at once anywhere
  HalfWidth(const Problem& problem, const VariantCost& cost, bool overlaps) noexcept
      : lanes_(problem.relative_intervals(cost)),
        curves_(problem.own_intervals(cost)),
        overlap_(overlaps ? problem.spread(cost).overlap : 0),
        makespan_(problem.spread(cost).makespan) {}

  /// @param stretched_us  as of stretch_effect_us
  /// @param us            stretched_us(1, 1)
  /// @param contention_us how far the makespan moves if assumed slow-downs are off
  template <typename StretchedUs>
  [[nodiscard]] double operator()(const StretchedUs& stretched_us, double us, double contention_us, double sign) const {
    const double by_lanes_us =
        std::hypot(stretch_effect_us(stretched_us, us, lanes_, sign), contention_us, overlap_ * us);
    if (makespan_ == 0) return by_lanes_us;
    return std::min(by_lanes_us,
                    std::hypot(stretch_effect_us(stretched_us, us, curves_, sign), contention_us, makespan_ * us));
  }

 private:
  Slowdown lanes_, curves_;
  double overlap_, makespan_;
};

/// How far the 90 % interval of a cut's makespan reaches above it.
[[nodiscard]] double upper_half_width_us(const Problem& problem, const VariantCost& cost, const Cut& cut);

/// How much longer a cut may take when each lane's curve is off by its curve_interval.
[[nodiscard]] double curve_half_width_us(const Problem& problem, const VariantCost& cost, const Cut& cut);

/// How much of a cut's gain over the uncut plan of `uncut` the model's errors can explain at a known speed of the
/// machine. With an anchored interval, it is that interval. Otherwise the curves' own intervals give it for both plans;
/// errors at different block lengths count as independent, which errs on the side of not cutting.
/// docs/cost_model.md §5.
[[nodiscard]] double explained_gain_us(const Problem& problem, const VariantCost& cost, const Cut& cut,
                                       double makespan_us, const VariantCost& uncut);

/// Whether the lanes of an uncut plan overlap. They can if its kind has a local part or its blocks pass in slices, and
/// they do unless contention and hand-overs make serial faster.
[[nodiscard]] bool overlaps_uncut(const Problem& problem, const VariantCost& cost, const BlockPassing& passing);

/// The makespan that simulate_cut() gives for the whole axis, equal but for rounding. Allocates nothing unless the
/// problem has counts.
[[nodiscard]] double uncut_makespan_us(const Problem& problem, const VariantCost& cost, const BlockPassing& passing);

/// One entry for each length and lane.
[[nodiscard]] std::vector<LengthSensitivity> length_sensitivities(const Problem& problem, const VariantCost& cost,
                                                                  const Cut& cut);

/// The makespan of a cut, and the time of all its blocks on each lane.
[[nodiscard]] LaneTimes lane_times(const Problem& problem, const VariantCost& cost, const Cut& cut);

/// When every block of a cut is on each lane. With LocalFirst, block 0 is the local part: it takes no time on the first
/// lane and its matmul on the second.
[[nodiscard]] Timeline simulate_cut(const Problem& problem, const VariantCost& cost, const Cut& cut);

/// A plan for one cut with times, interval, provenance and timeline filled in; no runners-up, no reason.
[[nodiscard]] Plan predict(const Problem& problem, const VariantCost& cost, const Cut& cut, std::string strategy);

/// The standard normal distribution's `quantile` over its 95 % quantile, which is the upper end of a 90 % interval; 0
/// for the median.
[[nodiscard]] double interval_multiple(double quantile) noexcept;

} // namespace mc2::planner::strategies
