#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mc2/planner/planner.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// A cut of the short/long family without its list of blocks: `long_count` blocks of `long_rows` and at most one odd
/// block before or behind them.
struct BlockSplit {
  std::int64_t long_rows = 0;
  std::int64_t long_count = 0;
  std::int64_t odd_rows = 0; ///< 0: there is none
  bool is_odd_first = false;

  [[nodiscard]] std::int64_t block_count() const noexcept { return long_count + (odd_rows > 0 ? 1 : 0); }
  [[nodiscard]] Cut cut() const;
  bool operator==(const BlockSplit&) const = default;
};

/// How an axis of any length is cut: into blocks of `long_rows`, and one block, the first or the last, that takes the
/// rest and has at least `min_odd_rows`.
struct CutRule {
  Variant variant;
  Schedule schedule = Schedule::Pipelined;
  std::int64_t long_rows = 0;    ///< rows or columns of the cut axis; 0: uncut
  std::int64_t min_odd_rows = 0; ///< 0 when uncut
  bool is_odd_first = false;

  [[nodiscard]] bool is_cut() const noexcept { return long_rows > 0; }
  /// How the rule cuts an axis. One block of the whole length if the rule is uncut or the axis is too short for two
  /// blocks.
  [[nodiscard]] BlockSplit split(std::int64_t axis_length) const noexcept {
    const std::int64_t long_count = is_cut() ? (axis_length - min_odd_rows) / long_rows : 0;
    if (long_count < 1) return {axis_length, 1, 0, false};
    return {long_rows, long_count, axis_length - long_count * long_rows, is_odd_first};
  }
  /// "do not cut", "uncut, the lanes overlap as it is", "512 each, then 128 to 639", "128 to 639, then 512 each".
  [[nodiscard]] std::string text() const;
  bool operator==(const CutRule&) const = default;
};

/// One rule for every m from first to last that the operator can have.
struct PlanRange {
  std::int64_t first_m = 0, last_m = 0;
  CutRule rule;
  double least_benefit = 0, most_benefit = 0; ///< predicted; the extremes over all m of the range
  /// From the lowest to the highest end of the benefit's 90 % interval at any m of the range.
  std::optional<BenefitInterval> benefit_interval = std::nullopt;
  Provenance provenance = Provenance::Analytic; ///< of the gain: the weakest of blocks and serial over all m
  double loss = 0; ///< relative excess over an m's best cut by the same model; the largest of all m

  /// Appends the next range, which has the same rule.
  void extend(const PlanRange& next) noexcept;
  bool operator==(const PlanRange&) const = default;
};

/// m that no range covers.
struct PlanGap {
  std::int64_t first_m = 0, last_m = 0;
  std::string reason;
  bool operator==(const PlanGap&) const = default;
};

/// The decision for one operator as a function of m: what a program whose m changes from call to call looks up.
struct PlanRanges {
  OpSpec op; ///< m is the last legal m that was asked for
  Fingerprint fingerprint;
  std::int64_t first_m = 0; ///< the first m that was asked for
  /// Ascending. Every m between two ranges is in a gap, or is illegal for the operator.
  std::vector<PlanRange> ranges = {};
  std::vector<PlanGap> gaps = {}; ///< ascending
  std::int64_t planned_count = 0; ///< how many m were also planned alone, to compare with: all m of the ranges

  /// The range that covers m; null in a gap, outside, and for an illegal m. A binary search that allocates nothing.
  [[nodiscard]] const PlanRange* find(std::int64_t m) const noexcept;
  /// The largest PlanRange::loss.
  [[nodiscard]] double loss() const noexcept;
  /// The weakest provenance of any range; Analytic without ranges.
  [[nodiscard]] Provenance provenance() const noexcept;
  /// Errors: as OpSpec::validate; InvalidSpec naming
  ///   a range that is empty, out of order or outside the m that were asked for, or a gap that is;
  ///   a rule with illegal lengths, or whose odd block is longer than the axis at the range's first m;
  ///   benefits above 1 or in the wrong order, or a loss that is negative or not finite;
  ///   ranges and gaps that do not hold each legal m once;
  ///   a planned_count that is not the number of m in the ranges.
  [[nodiscard]] Result<void> validate() const;
  bool operator==(const PlanRanges&) const = default;
};

/// Ranges reach up to this many steps of m (m_step()). Block times are tabulated for every length of the cut axis.
inline constexpr std::int64_t kMaxRangeAxis = 65'536;

/// How much longer a range's cut may take than the plan of the m alone, by the same model, relative.
inline constexpr double kRangeTolerance = 0.01;

/// How many m from first to last the operator can have: the multiples of m_step().
[[nodiscard]] std::int64_t legal_count(const OpSpec& op, std::int64_t first_m, std::int64_t last_m);

/// Checks everything but the model of a question for ranges. The m of `op` does not matter.
/// Errors: as OpSpec::validate and PlanOptions::validate; InvalidSpec for a first m below 1 or above the last, a last m
/// above kMaxRangeAxis * m_step(), no legal m between them, counts, or another strategy than search.
[[nodiscard]] Result<void> check_range(const OpSpec& op, std::int64_t first_m, std::int64_t last_m,
                                       const PlanOptions& options);

/// A model and the last m that it answers for.
struct ModelUntil {
  std::int64_t last_m = 0;
  CostModel model;
};

/// Returns the model to use from an m on. All models have the same variants and are of one machine.
using ModelFrom = std::function<ModelUntil(std::int64_t first_m)>;

/// Few ranges of m with one rule each. At every m the rule's cut is predicted to take at most kRangeTolerance longer
/// than make_plan()'s cut, and it is uncut wherever make_plan() does not cut. For that, every legal m is planned alone.
/// Pure. 16,384 m and ten variants take below a second with one model, and twice that with one model for each 6 % of m.
/// The m at which a kind is cut by columns form a gap, because each such m has a model of its own.
/// @param op       its m does not matter
/// @param options  their strategy is search
/// @param label    changes each predicted plan before it enters a range, e.g. widens its intervals; null: nothing does
/// @param on_planned  called with each m, ascending, once it is planned alone; null: nothing is
/// Errors: as check_range and make_plan; InvalidSpec (model) when a later model has other variants.
[[nodiscard]] Result<PlanRanges> plan_ranges(const OpSpec& op, std::int64_t first_m, std::int64_t last_m,
                                             const ModelFrom& model_from, const PlanOptions& options,
                                             const std::function<Plan(Plan)>& label = nullptr,
                                             const StopCheck& is_stopped = {},
                                             const std::function<void(std::int64_t m)>& on_planned = nullptr);

/// As above, with one model for every m.
[[nodiscard]] Result<PlanRanges> plan_ranges(const OpSpec& op, std::int64_t first_m, std::int64_t last_m,
                                             const CostModel& model, const PlanOptions& options,
                                             const std::function<Plan(Plan)>& label = nullptr,
                                             const StopCheck& is_stopped = {});

/// The range that holds a plan's m alone.
[[nodiscard]] PlanRange range_of(const Plan& plan);

/// The plan of one m by the rule of its range, without predicted times. Errors: NotFound in a gap and outside;
/// InvalidSpec for an m that the operator cannot have.
[[nodiscard]] Result<Plan> plan_at(const PlanRanges& ranges, std::int64_t m);

} // namespace mc2::planner

#pragma GCC visibility pop
