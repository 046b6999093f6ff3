#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mc2/planner/planner.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// A cut of the short/long family without its list of blocks: `long_count` blocks of `long_rows` and one odd block,
/// before or behind them, or none of length 0.
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
  /// Of an axis that is long enough for two blocks; uncut, and where it is not, one block of the whole length.
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
  double least_benefit = 0, most_benefit = 0; ///< predicted, of all m of the range
  /// From the lowest to the highest end of the benefit's 90 % interval at any m of the range.
  std::optional<BenefitInterval> benefit_interval = std::nullopt;
  Provenance provenance = Provenance::Analytic; ///< the weakest of any m
  double loss = 0; ///< how much longer at most than each m's best cut by the same model, relative

  /// By the next range, of the same rule.
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
  OpSpec op; ///< m is the last m asked for
  Fingerprint fingerprint;
  std::int64_t first_m = 0; ///< asked for
  /// Ascending. Between two of them lie the m of a gap, or m that the operator cannot have.
  std::vector<PlanRange> ranges = {};
  std::vector<PlanGap> gaps = {}; ///< ascending
  std::int64_t planned_count = 0; ///< m that were planned alone, to compare with; all of the ranges

  /// The range of an m; null in a gap and outside. A binary search that allocates nothing.
  [[nodiscard]] const PlanRange* find(std::int64_t m) const noexcept;
  /// How much longer at most any m of any range takes than its best cut by the same model, relative.
  [[nodiscard]] double loss() const noexcept;
  /// The weakest of any range; Analytic without ranges.
  [[nodiscard]] Provenance provenance() const noexcept;
  /// Errors: InvalidSpec naming a range that is empty, out of order, outside what was asked or illegal as a rule, whose
  /// odd block is longer than its first m's axis, or of benefits or a loss that cannot be; an m that the operator can
  /// have in no range and no gap, or in both; another planned_count than the ranges have.
  [[nodiscard]] Result<void> validate() const;
  bool operator==(const PlanRanges&) const = default;
};

/// The longest cut axis that ranges are planned to: block times are tabulated for every length up to it.
inline constexpr std::int64_t kMaxRangeAxis = 65'536;

/// A range's plan may take so much longer than the m's own by the same model.
inline constexpr double kRangeTolerance = 0.01;

/// Whether ranges can be asked for, whatever the model. Errors: InvalidSpec for the operator, whose m does not matter,
/// for m below 1, first above last, a last m whose cut axis is longer than kMaxRangeAxis, no m that the operator can
/// have, options, another strategy than search.
[[nodiscard]] Result<void> check_range(const OpSpec& op, std::int64_t first_m, std::int64_t last_m,
                                       const PlanOptions& options);

/// A model, and the last m that it is to be asked for.
struct ModelUntil {
  std::int64_t last_m = 0;
  CostModel model;
};

/// The model from an m on. All have the same variants, and are of one machine.
using ModelFrom = std::function<ModelUntil(std::int64_t first_m)>;

/// Few ranges of m with one rule each, so that at every m the rule's cut is predicted to take at most kRangeTolerance
/// longer than make_plan()'s, and is uncut wherever that one is uncut. Every legal m is planned alone to compare with;
/// pure, and below a second for 16,384 m and ten variants by one model, twice that by one for each 6 % of m. Kinds
/// whose few rows are cut by columns have no range there: a model answers for one such m alone.
/// @param op       its m does not matter
/// @param options  of strategy search
/// @param label    what is told of a plan besides what was predicted: widens its intervals
/// Errors: as check_range and make_plan.
[[nodiscard]] Result<PlanRanges> plan_ranges(const OpSpec& op, std::int64_t first_m, std::int64_t last_m,
                                             const ModelFrom& model_from, const PlanOptions& options,
                                             const std::function<Plan(Plan)>& label = nullptr,
                                             const StopCheck& is_stopped = {});

/// By one model for every m.
[[nodiscard]] Result<PlanRanges> plan_ranges(const OpSpec& op, std::int64_t first_m, std::int64_t last_m,
                                             const CostModel& model, const PlanOptions& options,
                                             const std::function<Plan(Plan)>& label = nullptr,
                                             const StopCheck& is_stopped = {});

/// A plan as the range of its own m alone.
[[nodiscard]] PlanRange range_of(const Plan& plan);

/// The plan of one m, as a range has it: without times. Errors: NotFound in a gap and outside; InvalidSpec for an m
/// that the operator cannot have.
[[nodiscard]] Result<Plan> plan_at(const PlanRanges& ranges, std::int64_t m);

} // namespace mc2::planner

#pragma GCC visibility pop
