#pragma once

#include <cstdint>
#include <deque>
#include <memory_resource>
#include <optional>
#include <vector>

#include "mc2/planner/plan_ranges.hpp"
#include "strategies/member_score.hpp"

namespace mc2::planner::strategies {

/// The decision for one m. `cost` points into the search's model.
struct Choice {
  const VariantCost* cost = nullptr;
  Schedule schedule = Schedule::Serial;
  BlockSplit split; ///< one block of the whole axis: uncut
  double score_us = 0;

  [[nodiscard]] bool is_cut() const noexcept { return split.block_count() > 1; }
  /// Length of the odd block. If all blocks are equal, any of them counts as the odd one.
  [[nodiscard]] std::int64_t odd_length() const noexcept {
    return split.odd_rows > 0 ? split.odd_rows : split.long_rows;
  }
  /// A rule with this choice's variant, schedule and long blocks. With `min_odd_rows` = odd_length() it gives this cut
  /// at this m.
  [[nodiscard]] CutRule rule(std::int64_t min_odd_rows) const;
};

/// Plans many m of one operator, each as plan_by_search() does, from tables of block times that all m share.
class RangeSearch {
 public:
  /// All arguments must outlive the search.
  /// @param longest  the operator with the largest m that is asked for
  /// @param memory   for the tables; later searches can reuse it
  RangeSearch(const OpSpec& longest, const CostModel& model, const PlanOptions& options, const StopCheck* stop_check,
              std::pmr::memory_resource& memory);

  /// As Problem::is_stopped().
  [[nodiscard]] bool is_stopped() const { return says_stop(stop_check_); }

  /// The fastest decision; uncut if the best cut's gain is not significant. m must be legal for the operator.
  /// @param near  the decision for an m close by, or null. The better it is for this m, the less is searched
  [[nodiscard]] Choice best(std::int64_t m, const Choice* near) const;
  /// What a rule gives at an m. None if that is no legal cut, or if an uncut rule has another schedule than the uncut
  /// plan there.
  [[nodiscard]] std::optional<Choice> apply(const CutRule& rule, const VariantCost& cost, std::int64_t m) const;
  /// Shortest block of the variant (BlockPassing::options()).
  [[nodiscard]] std::int64_t min_block_rows(const VariantCost& cost) const;

 private:
  /// One variant with its tables over all block lengths. Its bounds exclude cuts that cannot be the best.
  struct Candidate {
    Candidate(const Problem& problem, const VariantCost& variant_cost, std::pmr::memory_resource& memory);

    [[nodiscard]] const PathShare& share(std::int64_t rows) const { return shares[static_cast<std::size_t>(rows)]; }
    [[nodiscard]] double score_us(const BlockSplit& split, double local_us, bool is_expected) const {
      if (!is_expected) return score.score_us(split, local_us);
      return score.makespan_us(split, local_us, share(split.long_rows), share(split.odd_rows));
    }
    /// The least that any block of a cut of `rows` rows adds to a path, per row, before or behind the change of lanes.
    [[nodiscard]] double least_us_per_row(std::int64_t rows) const;
    /// Lower bound of the makespan of any cut of `rows` rows.
    [[nodiscard]] double bound_us(std::int64_t rows) const;

    const VariantCost* cost;
    CostTable table;
    MemberScore score;
    PlanOptions options;                ///< of this variant
    std::pmr::vector<PathShare> shares; ///< by length of the block
    /// By length: the least that any block up to that length adds to a path, per row, before and behind the change of
    /// lanes.
    std::pmr::vector<double> before_us_per_row, behind_us_per_row;
  };

  /// The problem of one m, which holds references to its operator.
  struct Case {
    Case(const RangeSearch& search, std::int64_t m);
    OpSpec op;
    Problem problem;
  };

  /// About the least time per row of any cut, from few block lengths. Most variants are slower than the best at every m
  /// by more than this estimate is off, and need no tables. 0: not known.
  [[nodiscard]] double floor_us_per_row(const VariantCost& cost) const;
  [[nodiscard]] std::size_t place_of(const VariantCost& cost) const {
    return static_cast<std::size_t>(&cost - model_.variants.data());
  }
  /// The objective of the uncut plan.
  [[nodiscard]] double uncut_us(const Problem& problem, const VariantCost& cost) const;
  [[nodiscard]] Schedule uncut_schedule(const Problem& problem, const VariantCost& cost) const;
  [[nodiscard]] Choice best_uncut(const Problem& problem) const;
  void offer_halves(const Problem& problem, const VariantCost& cost, Choice& best) const;
  void offer_cuts(const Problem& problem, const Candidate& candidate, Choice& best) const;
  [[nodiscard]] double makespan_us(const Problem& problem, const Choice& cut) const;
  [[nodiscard]] bool is_significant(const Problem& problem, const Choice& cut, const Choice& uncut) const;
  [[nodiscard]] const Candidate& candidate_of(const VariantCost& cost) const;

  const OpSpec& longest_;
  const CostModel& model_;
  const PlanOptions& options_;
  const StopCheck* stop_check_;
  std::pmr::memory_resource& memory_;
  const bool is_expected_; ///< whether the expected makespan is minimised, not another quantile
  const Problem longest_problem_;
  std::vector<BlockPassing> passings_;    ///< by variant
  std::vector<double> floors_us_per_row_; ///< by variant: floor_us_per_row()
  /// By variant; each is made when it is first used. They never move, because each score refers to its table.
  mutable std::deque<std::optional<Candidate>> candidates_;
};

} // namespace mc2::planner::strategies
