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

/// "512,4x896", also as Cut::text() writes it. Errors: InvalidSpec (blocks) for what is no list of 1 to 1024 positive
/// lengths.
[[nodiscard]] Result<Cut> parse_cut(std::string_view text);

/// The whole cut axis as one block. `op` is legal.
[[nodiscard]] Cut uncut(const OpSpec& op);

/// The whole cut axis in blocks of one length, the last one shorter where they do not fill it. `op` is legal, the
/// length at least 1 and no longer than the axis.
[[nodiscard]] Cut equal_blocks(const OpSpec& op, std::int64_t length);

/// Errors: InvalidSpec for blocks that are not positive or do not sum to the length of the operator's cut axis.
[[nodiscard]] Result<void> validate_cut(const OpSpec& op, const Cut& cut);

/// How the blocks of a plan pass its two lanes.
enum class Schedule : std::uint8_t {
  Serial,     ///< uncut: all of it passes one lane, then the other, even where the variant could overlap them
  Pipelined,  ///< a block's second lane runs beside the next blocks' first lane, or its slices do
  LocalFirst, ///< pipelined, and a rank's own shard, which waits for nobody, is multiplied first
};

[[nodiscard]] std::string_view to_string(Schedule schedule) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<Schedule> parse_schedule(std::string_view text);

/// The schedule that overlaps as much as the cut lets it: uncut, a local part hides behind the collective, and a
/// variant may hand its block over in slices; without either, nothing overlaps and it is Serial.
[[nodiscard]] Schedule overlapping_schedule(const OpSpec& op, const Variant& variant, const Cut& cut);

/// Of a cut that was measured: validate_cut(), and what does not overlap is serial itself, so that a time of serial
/// beside it (0: none) is about the same, within a factor of 3: other kernels may have run it. Errors: InvalidSpec.
[[nodiscard]] Result<void> validate_measured_cut(const OpSpec& op, const Variant& variant, const Cut& cut,
                                                 double fused_us, double serial_us);

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
  std::int64_t simulated_count = 0; ///< of those, simulated in full
  std::int64_t bounded_count = 0;   ///< of those, excluded because their lower bound already exceeds the best
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
  double serial_low_us = 0, serial_high_us = 0; ///< likewise
  double speed_range = 1;                       ///< 0.9 quantile of serial's runs over their 0.1 quantile
  bool operator==(const MeasuredSpread&) const = default;
};

/// What was measured when the plan was run on the machine. A plan that is serial is measured by serial's own runs, and
/// its benefit is 0.
struct Validation {
  double fused_us = 0;                      ///< median of the plan as it runs
  double serial_us = 0;                     ///< median
  double benefit = 0;                       ///< 1 - median of paired fused/serial ratios
  double benefit_low = 0, benefit_high = 0; ///< 95 % interval
  int pair_count = 0;
  std::optional<MeasuredSpread> spread = std::nullopt; ///< absent in what was kept by an mc2 before 0.2
  std::string measured_at = {};                        ///< ISO 8601 UTC; empty where no clock was asked

  /// Errors: InvalidSpec naming a time as validate_measured_time, a benefit as validate_benefit, no pair, a date that
  /// is no moment, or a spread that cannot be.
  [[nodiscard]] Result<void> validate() const;
  bool operator==(const Validation&) const = default;
};

/// Begins the reason of a plan that is left uncut because its race was too noisy to tell whether a cut is faster.
inline constexpr std::string_view kUndecided = "undecided: ";

/// The decision for one operator on one machine, and everything needed to understand it.
struct Plan {
  OpSpec op;
  Fingerprint fingerprint; ///< of the model it was made from
  /// "search", "free", "formula", "wave_groups", "given" for blocks that the user named, or "raced" for the fastest of
  /// a few cuts that were tried where nothing could be predicted
  std::string strategy;
  Variant variant;
  Cut cut;
  Schedule schedule = Schedule::Pipelined;
  /// What the ranks send each other, where the plan was made for that; its times are of the rank that takes longest
  RowCounts counts = {};
  Estimate makespan; ///< predicted, fused
  /// Of benefit(). It is narrower than the makespan's interval: most of what changes a machine's speed changes serial,
  /// too. Absent where nothing was predicted, or by an mc2 that did not say.
  std::optional<BenefitInterval> benefit_interval;
  double serial_us = 0;        ///< uncut matmul and uncut collective one after the other, predicted
  double compute_us = 0;       ///< uncut matmul, local part included, predicted
  double communication_us = 0; ///< uncut collective, predicted
  /// max(compute_us, communication_us), serial's longer part: only a faster variant of that part can beat it
  double ideal_us = 0;
  Bound bound = Bound::Compute;
  Slowdown slowdown; ///< of the kind's first and second lane, as used
  std::optional<double> block_overhead_us =
      std::nullopt; ///< of every block on each lane, where the question assumed one
  /// predicted; first = the kind's first lane; block 0 is the local part where it comes first; empty where nothing is
  Timeline timeline;
  std::vector<RunnerUp> runners_up;       ///< best first; of a search, the best of each variant and number of blocks
  std::optional<Certificate> certificate; ///< strategies search and free only
  std::vector<RecipeStep> recipe;         ///< strategy formula only
  std::optional<Validation> validation;   ///< apart from what was predicted, which it never replaces
  std::string reason;                     ///< why this cut, one or two sentences

  /// (serial - fused) / serial.
  [[nodiscard]] double benefit() const noexcept { return serial_us > 0 ? (serial_us - makespan.us) / serial_us : 0; }
  /// (serial - fused) / (serial - ideal); 0 when nothing can be gained.
  [[nodiscard]] double overlap_efficiency() const noexcept {
    return serial_us > ideal_us ? (serial_us - makespan.us) / (serial_us - ideal_us) : 0;
  }
  [[nodiscard]] bool is_cut() const noexcept { return cut.block_rows.size() > 1; }
  /// Whether its run has both lanes busy at once anywhere.
  [[nodiscard]] bool overlaps() const;
  /// Whether another race may find a cut that is faster.
  [[nodiscard]] bool is_undecided() const noexcept { return reason.starts_with(kUndecided); }
  /// Without one, nothing was predicted of the blocks: a plan that was made by hand.
  [[nodiscard]] bool has_timeline() const noexcept { return !timeline.first.empty() || !timeline.second.empty(); }
  /// Of each lane of its timeline.
  [[nodiscard]] std::size_t span_count() const noexcept {
    return cut.block_rows.size() + (schedule == Schedule::LocalFirst ? 1 : 0);
  }
  /// Errors: InvalidSpec naming a time as validate_time, an interval as validate_interval, a slow-down below 1, counts
  /// as validate_counts, a serial plan that is cut, a timeline that does not fit the cut as validate_timeline, a block
  /// on the second lane before the first, a serial or ideal time that is not what its parts make it, a makespan beside
  /// no serial time or no timeline, what was measured as Validation::validate, a loser's cut as validate_cut, or a
  /// certificate of more cuts than there are. The makespan may differ from the timeline's: runs may have taught it.
  [[nodiscard]] Result<void> validate() const;
  bool operator==(const Plan&) const = default;
};

/// Errors: InvalidSpec naming the time that is negative or above kMaxTimeUs, spans that overlap, or a lane with
/// more or fewer spans than `block_count`: the cut's blocks, and the local part where it comes first.
[[nodiscard]] Result<void> validate_timeline(const Timeline& timeline, std::size_t block_count);

} // namespace mc2::planner

#pragma GCC visibility pop
