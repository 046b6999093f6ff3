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

/// Null: nobody may stop it.
[[nodiscard]] inline bool says_stop(const StopCheck* check) { return check != nullptr && *check && (*check)(); }

class BlockPassing;

/// The uncut matmul and the uncut collective.
struct SerialParts {
  double compute_us = 0, communication_us = 0;
};

/// One question with everything that every strategy needs, checked.
struct Problem {
  const OpSpec& op;
  const CostModel& model;
  const PlanOptions& options;
  const OpTraits& traits;
  std::int64_t rows; ///< length of the cut axis
  double message_bytes_per_unit;
  const StopCheck* stop_check = nullptr;              ///< null: nobody may stop it
  double serial_compute_ratio = 1;                    ///< planner::serial_compute_ratio()
  const VariantCost* serial_cost = nullptr;           ///< of the variant whose serial run is known; null: none
  double known_serial_compute_us = 0;                 ///< of that run's matmul
  bool requires_significance = true;                  ///< the options', of a model that was measured
  std::shared_ptr<const RoutedRows> routed = nullptr; ///< where the options name counts

  /// What has searched until now may be left as it is: its result is thrown away.
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
  /// The uncut parts of a serial run; of unequal splits, those of the rank that takes longest.
  [[nodiscard]] SerialParts serial_parts(const VariantCost& cost) const {
    if (routed) return routed_serial_parts(cost);
    return {full_compute_us(cost), communication_us(cost, rows)};
  }
  /// Whether a serial run may be of this variant: where one's is known, of no other, which is a guess beside it.
  [[nodiscard]] bool may_be_serial(const VariantCost& cost) const noexcept {
    return serial_cost == nullptr || serial_cost == &cost;
  }
  /// The uncut matmul, the local part included, then the uncut collective.
  [[nodiscard]] double serial_us(const VariantCost& cost) const {
    const SerialParts parts = serial_parts(cost);
    return parts.compute_us + parts.communication_us;
  }
  /// Time of a block on the kind's first or second lane, with the lane's fixed cost where the lanes hand work over: in
  /// a cut plan, and in one whose blocks pass in slices. Only such a block takes LaneCost::block_factor() of its curve.
  [[nodiscard]] double lane_us(const VariantCost& cost, bool is_first_lane, double block_rows,
                               bool hands_over) const noexcept;
  [[nodiscard]] double lane_us(const VariantCost& cost, bool is_first_lane, std::int64_t block_rows,
                               bool hands_over) const noexcept {
    return lane_us(cost, is_first_lane, static_cast<double>(block_rows), hands_over);
  }
  /// Two numbers of the lanes, in the order in which the kind's blocks pass them.
  [[nodiscard]] Slowdown in_lane_order(double compute, double communication) const noexcept {
    return traits.first_lane == Lane::Compute ? Slowdown{compute, communication} : Slowdown{communication, compute};
  }
  /// The slow-down factors of the kind's first and second lane.
  [[nodiscard]] Slowdown slowdown(const VariantCost& cost) const noexcept;
  /// The relative 90 % intervals of the kind's first and second lane.
  [[nodiscard]] Slowdown relative_intervals(const VariantCost& cost) const noexcept;
  /// The same without the model's spread: what the curves have by themselves.
  [[nodiscard]] Slowdown own_intervals(const VariantCost& cost) const noexcept;
  /// CostModel::spread; of published constants, which say how far off they are, none.
  [[nodiscard]] SpeedSpread spread(const VariantCost& cost) const noexcept {
    const bool is_analytic = cost.compute.curve.is_analytic || cost.communication.curve.is_analytic;
    return is_analytic ? SpeedSpread() : model.spread;
  }
  /// A rank's local part: its own rows of unequal splits.
  [[nodiscard]] double local_us(const VariantCost& cost, int rank) const;

 private:
  /// Uncut matmul where every pair is full.
  [[nodiscard]] double full_compute_us(const VariantCost& cost) const {
    if (&cost == serial_cost) return known_serial_compute_us;
    return serial_compute_ratio * (cost.local_us(op) + compute_us(cost, rows));
  }
  [[nodiscard]] SerialParts routed_serial_parts(const VariantCost& cost) const;
};

/// Errors: as OpSpec::validate, as CostModel::validate under "model."; OutOfRange where the model answers for other
/// operators only.
[[nodiscard]] Result<void> check_question(const OpSpec& op, const CostModel& model);

/// After check_question(). All must outlive it.
[[nodiscard]] Problem make_problem(const OpSpec& op, const CostModel& model, const PlanOptions& options,
                                   const StopCheck* stop_check = nullptr);

/// What a question that was stopped is answered with.
[[nodiscard]] Error stopped_error();

/// The variant with the shortest uncut matmul + collective: what a plan has to beat.
[[nodiscard]] const VariantCost& best_serial_variant(const Problem& problem) noexcept;

/// Of a variant that the model has.
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

/// How far the 90 % interval of a makespan reaches to one side. Lanes that are each off by so much alone, and an
/// overlap besides, make a run that is off by less: where what whole runs were off by beside the curves' own errors is
/// narrower, that counts. docs/cost_model.md §14.
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
  /// @param contention_us how far assumed slow-downs may move it
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

/// How much of a cut's gain over the uncut operator of a variant the model's errors explain, once the machine's speed
/// is known: the anchored interval of a model that was recalibrated; else what the curves leave open of both, where
/// errors at different block lengths count as independent, which errs on the side of not cutting. docs/cost_model.md
/// §5.
[[nodiscard]] double explained_gain_us(const Problem& problem, const VariantCost& cost, const Cut& cut,
                                       double makespan_us, const VariantCost& uncut);

/// Whether the lanes of an uncut plan overlap, as those of every cut one do: where its kind has a local part or its
/// blocks pass in slices, unless contention and hand-overs make plain serial faster.
[[nodiscard]] bool overlaps_uncut(const Problem& problem, const VariantCost& cost, const BlockPassing& passing);

/// simulate_cut() of the whole axis, its makespan alone: equal but for rounding, and allocates nothing.
[[nodiscard]] double uncut_makespan_us(const Problem& problem, const VariantCost& cost, const BlockPassing& passing);

/// One for each length and lane.
[[nodiscard]] std::vector<LengthSensitivity> length_sensitivities(const Problem& problem, const VariantCost& cost,
                                                                  const Cut& cut);

/// What a cut takes, and its blocks on each lane together.
[[nodiscard]] LaneTimes lane_times(const Problem& problem, const VariantCost& cost, const Cut& cut);

/// When every block of a cut would be on each lane. With the local part first, it is block 0: no time on the first
/// lane, its matmul on the second.
[[nodiscard]] Timeline simulate_cut(const Problem& problem, const VariantCost& cost, const Cut& cut);

/// A plan for one cut with times, interval, provenance and timeline filled in; no runners-up, no reason.
[[nodiscard]] Plan predict(const Problem& problem, const VariantCost& cost, const Cut& cut, std::string strategy);

/// The standard normal quantile of the objective over that of the 90 % intervals' upper end; 0 for the median.
[[nodiscard]] double interval_multiple(double quantile) noexcept;

} // namespace mc2::planner::strategies
