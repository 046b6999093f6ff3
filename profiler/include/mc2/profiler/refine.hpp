#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// Most different cuts that one refinement learns from.
inline constexpr std::size_t kMaxMeasuredCuts = 256;

struct RefineSettings {
  planner::PlanOptions plan; ///< the family of cuts: alignment, shortest block, most blocks
  int next_count = 3;        ///< cuts to run next, at most
};

/// The belief about a cut's time, with a 90 % interval.
struct CutBelief {
  planner::Variant variant;
  planner::Cut cut;
  double profiled_us = 0; ///< prediction of the model before any cut was measured
  double foretold_us = 0; ///< prediction from the cuts that were measured before this one; 0 where there is none
  double us = 0, low_us = 0, high_us = 0;
  double measured_us = 0;   ///< 0 where not measured
  bool is_believed = true;  ///< false where other cuts or undisturbed lanes contradict the measurement: it is set aside
  double expected_gain = 0; ///< expected improvement on the best so far, relative, if this cut is measured next
};

/// A factor that neither lane shows alone, before and after the refinement, with 90 % intervals.
struct LearnedFactor {
  enum class What : std::uint8_t { ComputeSlowdown, CommunicationSlowdown, BlockOverhead };
  What what = What::ComputeSlowdown;
  double before = 1, before_low = 1, before_high = 1;
  double after = 1, after_low = 1, after_high = 1;
  bool is_determined = false; ///< whether the cuts narrow its spread clearly below the assumed one
};

/// "compute_slowdown", "communication_slowdown" or "block_overhead_us".
[[nodiscard]] std::string_view to_string(LearnedFactor::What what) noexcept;

/// The parts of a measured cut's time, as seen from one lane. uncut_us to unexplained_us sum to the measured time.
struct MeasuredAccount {
  planner::Lane lane = planner::Lane::Compute;
  double uncut_us = 0;       ///< the lane's uncut part
  double small_block_us = 0; ///< additional time of the blocks over the uncut part, by the curve
  double overhead_us = 0;    ///< fixed costs of the blocks
  double contention_us = 0;  ///< additional time because the other lane is busy
  double waiting_us = 0;     ///< waiting for the other lane: first block, last block, gaps
  double unexplained_us = 0; ///< measured time minus all of the above
  double blocks_us = 0;      ///< sum over the lane's blocks: as timed, or else by the model
  bool is_timed = false;     ///< whether blocks_us was timed; if so, unexplained_us belongs to the blocks alone

  /// The time of the blocks as a multiple of the uncut part.
  [[nodiscard]] double expansion() const noexcept { return blocks_us / uncut_us; }
};

struct Refinement {
  planner::CostModel model; ///< recalibrated; its anchored interval holds for a further cut
  std::string text;         ///< what the recalibration did, in one sentence; empty without a believed cut
  std::vector<LearnedFactor> factors;
  double serial_us = 0;
  bool is_serial_measured = false;
  std::vector<CutBelief> measured;       ///< one entry for each cut; by variant, then in the order given
  planner::Plan plan;                    ///< the plan to use now: the best measured cut, or "do not cut"
  std::vector<MeasuredAccount> accounts; ///< accounts of that cut, compute lane first; empty for "do not cut"
  /// Cuts to run next, the largest expected gain first; each is chosen as if those before it had been run. Empty when
  /// the search is settled.
  std::vector<CutBelief> next;
  double noise = 0;         ///< relative standard error of the best cut's time; 0 for "do not cut"
  double expected_gain = 0; ///< the largest expected gain of a further cut

  /// Whether any measured cut is believed. If not, the plan is no verdict on cuts.
  [[nodiscard]] bool has_usable_cut() const { return std::ranges::any_of(measured, &CutBelief::is_believed); }
};

/// Checks one run of an operator, cut or not: none is more than 10 times shorter than the matmul alone.
/// @param matmul_us  what the uncut matmul takes; 0: unknown. Errors: InvalidSpec, naming both times.
[[nodiscard]] Result<void> validate_fused_time(const planner::OpSpec& op, double fused_us, double matmul_us);

/// Checks the times of a measured cut against those of the model's lanes: a time that is more than 10 times shorter
/// than that of the lane is in another unit, and would be believed to be the machine's speed. So is one that is 100
/// times longer, except fused_us of a cut that overlaps. Errors: InvalidSpec, naming the time, the cut and
/// what the lane takes; as planner::restricted_to().
[[nodiscard]] Result<void> validate_uncut_times(const planner::OpSpec& op, const planner::CostModel& model,
                                                const planner::MeasuredCut& cut);

/// Learns from cuts that the caller ran elsewhere.
///   factors   the slow-downs and the fixed cost per block, which neither lane shows alone, are fitted as in
///             recalibrate(). Block times, where given, tell the two lanes apart.
///   repeats   several measurements of one cut are averaged by their errors; of three or more, those far from the
///             median are left out. The error grows where they disagree.
///   residual  a Gaussian process over cuts around that prediction: three linear terms for the factors, a term for each
///             lane's curve at each block length (with the curve's cross-validated error), and a smooth term over the
///             number and the shape of the blocks.
///   outliers  a cut is set aside when all others together contradict it by more than six deviations and a factor of
///             1.2, or when it is a tenth faster than undisturbed lanes allow. It teaches nothing and cannot be the
///             plan.
///   next      the cuts of largest expected improvement (Jones, Schonlau and Welch, J. Global Optimization 13, 1998),
///             each chosen as if those before it had been measured as expected. The search is settled when no cut is
///             expected to gain more than a twentieth of a measurement's error.
/// docs/cost_model.md §6.
/// @param measured  may be empty: then `next` holds the cuts to begin with. A cut that does not overlap counts as a
///                  measurement of serial
/// Errors: InvalidSpec (settings, too many cuts, as planner::validate_measured_cut), CannotFit (times that
/// planner::validate_cut_times refuses, or as validate_uncut_times), and as planner::predict_cut.
[[nodiscard]] Result<Refinement> refine(const planner::OpSpec& op, const planner::CostModel& model,
                                        std::span<const planner::MeasuredCut> measured,
                                        const RefineSettings& settings = {});

} // namespace mc2::profiler

#pragma GCC visibility pop
