#pragma once

#include <cstdint>
#include <deque>
#include <memory_resource>
#include <optional>
#include <vector>

#include "mc2/planner/plan_ranges.hpp"
#include "strategies/member_score.hpp"

namespace mc2::planner::strategies {

/// What is decided for one m. `cost` is of the search's model.
struct Choice {
  const VariantCost* cost = nullptr;
  Schedule schedule = Schedule::Serial;
  BlockSplit split; ///< one block of the whole axis: uncut
  double score_us = 0;

  [[nodiscard]] bool is_cut() const noexcept { return split.block_count() > 1; }
  /// Of equal blocks any is the odd one.
  [[nodiscard]] std::int64_t odd_length() const noexcept {
    return split.odd_rows > 0 ? split.odd_rows : split.long_rows;
  }
  /// A rule that gives this cut for its m, with an odd block of no more than odd_length() at least.
  [[nodiscard]] CutRule rule(std::int64_t min_odd_rows) const;
};

/// Plans many m of one operator, each as plan_by_search() does, from tables of block times that all m share.
class RangeSearch {
 public:
  /// @param longest  the operator with the largest m that is asked for. All must outlive the search.
  /// @param memory   of its tables: searches that follow each other use it again
  RangeSearch(const OpSpec& longest, const CostModel& model, const PlanOptions& options, const StopCheck* stop_check,
              std::pmr::memory_resource& memory);

  /// As Problem::is_stopped().
  [[nodiscard]] bool is_stopped() const { return says_stop(stop_check_); }

  /// The fastest decision, uncut where the best cut's gain is not significant. m is one that the operator can have.
  /// @param near  the decision for an m close by: the nearer to the best one, the less is searched; may be null
  [[nodiscard]] Choice best(std::int64_t m, const Choice* near) const;
  /// What a rule gives at an m; none where it gives no legal cut, or its schedule is not the uncut plan's there.
  [[nodiscard]] std::optional<Choice> apply(const CutRule& rule, const VariantCost& cost, std::int64_t m) const;
  /// Of the variant.
  [[nodiscard]] std::int64_t min_block_rows(const VariantCost& cost) const;

 private:
  /// One variant with its tables over all block lengths. The bounds leave out what cannot be the best.
  struct Candidate {
    Candidate(const Problem& problem, const VariantCost& variant_cost, std::pmr::memory_resource& memory);

    [[nodiscard]] const PathShare& share(std::int64_t rows) const { return shares[static_cast<std::size_t>(rows)]; }
    [[nodiscard]] double score_us(const BlockSplit& split, double local_us, bool is_expected) const {
      if (!is_expected) return score.score_us(split, local_us);
      return score.makespan_us(split, local_us, share(split.long_rows), share(split.odd_rows));
    }
    /// Of any block in a cut of so many rows, whether a path passes it before or behind its change of lanes.
    [[nodiscard]] double least_us_per_row(std::int64_t rows) const;
    /// No cut of so many rows is faster.
    [[nodiscard]] double bound_us(std::int64_t rows) const;

    const VariantCost* cost;
    CostTable table;
    MemberScore score;
    PlanOptions options;                ///< of this variant
    std::pmr::vector<PathShare> shares; ///< by length of the block
    /// By length: the least of any block up to it on a path's first and second lane, per row.
    std::pmr::vector<double> before_us_per_row, behind_us_per_row;
  };

  /// The problem of one m, which holds references to its operator.
  struct Case {
    Case(const RangeSearch& search, std::int64_t m);
    OpSpec op;
    Problem problem;
  };

  /// What a row of any cut takes at least, about, from few block lengths: most variants are slower at every m by more
  /// than that is unsure, and need no tables. 0: not known.
  [[nodiscard]] double floor_us_per_row(const VariantCost& cost) const;
  [[nodiscard]] std::size_t place_of(const VariantCost& cost) const {
    return static_cast<std::size_t>(&cost - model_.variants.data());
  }
  /// What is minimised, of the uncut plan, and whether its lanes overlap.
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
  const bool is_expected_; ///< what is minimised is the expected makespan
  const Problem longest_problem_;
  std::vector<BlockPassing> passings_;    ///< of each variant
  std::vector<double> floors_us_per_row_; ///< of each variant: floor_us_per_row()
  /// Of each variant, made when it is first asked for. In place: each score refers to its table.
  mutable std::deque<std::optional<Candidate>> candidates_;
};

} // namespace mc2::planner::strategies
