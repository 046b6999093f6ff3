#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/pipeline.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/planner/routing.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// Shape of a cut: which block is the odd one out, normally the short one. ShortFirst and ShortLast also name the rare
/// cuts whose odd block is longer than the others.
enum class BlockOrder : std::uint8_t { Uncut, Uniform, ShortFirst, ShortLast, Free };

/// How the cut axis is divided.
struct Cut {
  std::vector<std::int64_t> block_rows; ///< in execution order; sums to the length of the cut axis

  [[nodiscard]] BlockOrder order() const noexcept;
  /// "uncut", "8 x 128", "512 + 4 x 896", "3 x 256 + 100" or the list itself.
  [[nodiscard]] std::string text() const;
  bool operator==(const Cut&) const = default;
};

/// Reads "512,4x896" and what Cut::text() writes, but for "uncut". Errors: InvalidSpec (blocks) for a text that is no
/// list of 1 to 1024 positive lengths.
[[nodiscard]] Result<Cut> parse_cut(std::string_view text);

/// The whole cut axis as one block. `op` is legal.
[[nodiscard]] Cut uncut(const OpSpec& op);

/// The whole cut axis in blocks of one length; the last block is shorter if the length does not divide the axis. `op`
/// is legal, and the length is at least 1 and at most the axis.
[[nodiscard]] Cut equal_blocks(const OpSpec& op, std::int64_t length);

/// Errors: InvalidSpec for blocks that are not positive or do not sum to the length of the operator's cut axis.
[[nodiscard]] Result<void> validate_cut(const OpSpec& op, const Cut& cut);

/// How the blocks of a plan pass its two lanes.
enum class Schedule : std::uint8_t {
  Serial,     ///< uncut: the operator passes one lane, then the other, even if the variant could overlap them
  Pipelined,  ///< a block is on the second lane while the next blocks, or its own next slices, are on the first
  LocalFirst, ///< pipelined, and a rank's own shard, which waits for nobody, is multiplied first
};

[[nodiscard]] std::string_view to_string(Schedule schedule) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<Schedule> parse_schedule(std::string_view text);

/// The schedule that overlaps as much as the cut allows: LocalFirst for kinds with a local part, even uncut; Pipelined
/// for several blocks, or for one that the variant passes in slices; otherwise Serial.
[[nodiscard]] Schedule overlapping_schedule(const OpSpec& op, const Variant& variant, const Cut& cut);

/// A cut that ran on a machine, and its times.
struct MeasuredCut : CutTimes {
  Variant variant;
  Cut cut;
  bool operator==(const MeasuredCut&) const = default;
};

/// Whether what has a cut and a variant, such as a plan, a runner-up or a race, has these ones.
template <typename Choice>
[[nodiscard]] bool is_choice(const Choice& one, const Cut& cut, const Variant& variant) {
  return one.cut == cut && one.variant == variant;
}
/// Whether both have the same cut and variant.
template <typename One, typename Other>
[[nodiscard]] bool is_same_choice(const One& one, const Other& other) {
  return is_choice(one, other.cut, other.variant);
}

/// Checks a cut that was measured: validate_cut(), and that fused_us and serial_us agree if nothing overlaps, because
/// the cut is then the serial operator itself. They must agree within a factor of 3, because other kernels may have run
/// serial. Errors: InvalidSpec.
[[nodiscard]] Result<void> validate_measured_cut(const OpSpec& op, const MeasuredCut& measured);

/// A time with its 90 % interval and where it came from.
struct Estimate {
  double us = 0;
  double low_us = 0;
  double high_us = 0;
  Provenance provenance = Provenance::Analytic;
  std::string reason; ///< why this provenance, e.g. "largest block 2048 rows is outside the profiled 256..1024"
  bool operator==(const Estimate&) const = default;
};

enum class Bound : std::uint8_t { Compute = 1, Communication = 2 };
[[nodiscard]] std::string_view to_string(Bound bound) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<Bound> parse_bound(std::string_view text);

/// A 90 % interval of a predicted benefit. Both ends may be below 0.
struct BenefitInterval {
  double low = 0, high = 0;
  bool operator==(const BenefitInterval&) const = default;
};

/// A candidate that was considered and not chosen.
struct RunnerUp {
  Cut cut;
  Variant variant;
  double makespan_us = 0;
  std::string reason; ///< why it lost, with numbers
  bool operator==(const RunnerUp&) const = default;
};

/// How the search knows that nothing better was overlooked.
struct Certificate {
  std::int64_t candidate_count = 0; ///< legal cuts in the family, all variants
  std::int64_t simulated_count = 0; ///< candidates that were simulated in full
  std::int64_t bounded_count = 0;   ///< candidates excluded because their lower bound already exceeds the best
  std::string text;                 ///< one sentence
  /// How much longer the best short/long cut takes than the best free list, relative; strategy free only.
  std::optional<double> restriction_cost = std::nullopt;
  bool operator==(const Certificate&) const = default;
};

/// One step of the published recipe, for people who check it by hand.
struct RecipeStep {
  std::string name;
  double value = 0;
  std::string unit;
  std::string text;
  bool operator==(const RecipeStep&) const = default;
};

/// How sure the measured medians are, and how steady the machine was meanwhile.
struct MeasuredSpread {
  double fused_low_us = 0, fused_high_us = 0;   ///< 95 % interval of the median
  double serial_low_us = 0, serial_high_us = 0; ///< 95 % interval of the median
  double speed_range = 1;                       ///< 0.9 quantile of serial's runs over their 0.1 quantile
  bool operator==(const MeasuredSpread&) const = default;
};

/// What was measured when the plan was run on the machine. For a serial plan, these are serial's own runs, and the
/// benefit is 0.
struct Validation {
  double fused_us = 0;                      ///< median of the plan as it runs
  double serial_us = 0;                     ///< median
  double benefit = 0;                       ///< 1 - median of paired fused/serial ratios
  double benefit_low = 0, benefit_high = 0; ///< 95 % interval
  int pair_count = 0;
  std::optional<MeasuredSpread> spread = std::nullopt; ///< absent in plans kept by mc2 before 0.2
  std::string measured_at = {};                        ///< ISO 8601 UTC; empty where no clock was asked

  /// Errors: InvalidSpec naming a time as validate_measured_time, a benefit as validate_benefit, no pair, a date that
  /// is no moment, or a spread that cannot be.
  [[nodiscard]] Result<void> validate() const;
  bool operator==(const Validation&) const = default;
};

/// What runs of a cut say about it. The benefit's interval comes from CutTimes::likely_error() alone: serial's error is
/// not known. `times` has a serial_us.
[[nodiscard]] Validation validation_of(const CutTimes& times);

/// Begins the reason of a plan that is left uncut because its race was too noisy to tell whether a cut is faster.
inline constexpr std::string_view kUndecided = "undecided: ";
/// How the reason of a makespan begins that a model of another operator predicted (Transfer::reason).
inline constexpr std::string_view kTransferred = "transferred from ";

/// The decision for one operator on one machine, and everything needed to understand it.
struct Plan {
  OpSpec op;
  Fingerprint fingerprint; ///< of the model that the plan was made from
  /// "search", "free", "formula", "wave_groups", "given" for blocks that the user named, or "raced" for the fastest of
  /// a few cuts that were run because nothing could be predicted
  std::string strategy;
  Variant variant;
  Cut cut;
  Schedule schedule = Schedule::Pipelined;
  /// Rows that the ranks send each other, if the plan was made for such counts. Its times are then those of the rank
  /// that takes longest
  RowCounts counts = {};
  Estimate makespan; ///< predicted, fused
  /// 90 % interval of benefit(). It is narrower than the makespan's interval, because most of what changes a machine's
  /// speed changes serial, too. Absent if nothing was predicted, and in plans of an mc2 that did not compute it.
  std::optional<BenefitInterval> benefit_interval;
  double serial_us = 0;        ///< uncut matmul and uncut collective one after the other, predicted
  double compute_us = 0;       ///< uncut matmul, local part included, predicted
  double communication_us = 0; ///< uncut collective, predicted
  /// max(compute_us, communication_us), the longer part of serial. Only a faster variant of that part can beat it
  double ideal_us = 0;
  Bound bound = Bound::Compute;
  Slowdown slowdown; ///< of the kind's first and second lane, as the prediction used them
  std::optional<double> block_overhead_us =
      std::nullopt; ///< time added to every block on each lane, if the question assumed one
  /// predicted; first = the kind's first lane. With LocalFirst, block 0 is the local part. Empty if nothing is
  /// predicted
  Timeline timeline;
  std::vector<RunnerUp> runners_up;       ///< best first; a search lists the best of each variant and block count
  std::optional<Certificate> certificate; ///< strategies search and free only
  std::vector<RecipeStep> recipe;         ///< strategy formula only
  std::optional<Validation> validation;   ///< kept beside the predicted values, which it never replaces
  std::string reason;                     ///< why this cut, one or two sentences

  /// (serial - fused) / serial.
  [[nodiscard]] double benefit() const noexcept { return serial_us > 0 ? (serial_us - makespan.us) / serial_us : 0; }
  /// (serial - fused) / (serial - ideal); 0 when nothing can be gained.
  [[nodiscard]] double overlap_efficiency() const noexcept {
    return serial_us > ideal_us ? (serial_us - makespan.us) / (serial_us - ideal_us) : 0;
  }
  [[nodiscard]] bool is_cut() const noexcept { return cut.block_rows.size() > 1; }
  /// Whether both lanes are busy at once at any time of its run.
  [[nodiscard]] bool overlaps() const;
  /// Whether another race may find a faster cut.
  [[nodiscard]] bool is_undecided() const noexcept { return reason.starts_with(kUndecided); }
  /// Whether a model of another n and k predicted the makespan.
  [[nodiscard]] bool is_transferred() const noexcept { return makespan.reason.starts_with(kTransferred); }
  /// False for a plan that was made by hand: nothing was predicted of its blocks.
  [[nodiscard]] bool has_timeline() const noexcept { return !timeline.first.empty() || !timeline.second.empty(); }
  /// Number of spans on each lane of its timeline: the blocks and, with LocalFirst, the local part.
  [[nodiscard]] std::size_t span_count() const noexcept {
    return cut.block_rows.size() + (schedule == Schedule::LocalFirst ? 1 : 0);
  }
  /// Errors: InvalidSpec naming a field:
  ///   times as validate_time, intervals as validate_interval, counts as validate_counts, the timeline as
  ///   validate_timeline, the validation as Validation::validate, a runner-up's cut as validate_cut;
  ///   a slow-down outside 1 to kMaxSlowdown, or a makespan outside its interval;
  ///   a serial plan that is cut, or a block that is on the second lane before it has left the first;
  ///   serial_us or ideal_us that is not the sum or the maximum of compute_us and communication_us;
  ///   a makespan above 0 without a serial time or without a timeline;
  ///   a certificate whose simulated and bounded cuts exceed its candidates.
  /// The makespan may differ from the timeline's, because runs may have corrected it.
  [[nodiscard]] Result<void> validate() const;
  bool operator==(const Plan&) const = default;
};

/// Errors: InvalidSpec naming a time that is negative or above kMaxTimeUs, spans that overlap, a makespan that ends
/// before a block does, or a lane with another number of spans than `block_count` (Plan::span_count()).
[[nodiscard]] Result<void> validate_timeline(const Timeline& timeline, std::size_t block_count);

} // namespace mc2::planner

#pragma GCC visibility pop
