#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>

#include "strategies/block_passing.hpp"
#include "strategies/family.hpp"
#include "strategies/objective.hpp"
#include "strategies/path_share.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// Block times for every length that a family member of the problem can have, so that scoring a member reads four
/// numbers.
class CostTable {
 public:
  /// @param step    divides the long blocks' lengths; with 1 the table answers for every shorter axis, too
  /// @param memory  outlives the table
  CostTable(const Problem& problem, const VariantCost& cost, std::int64_t step,
            std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : step_(step), long_first_us_(memory), long_second_us_(memory), odd_first_us_(memory), odd_second_us_(memory) {
    const std::int64_t rest = problem.rows % step_;
    const std::size_t length_count = index(problem.rows) + 1;
    long_first_us_.reserve(length_count), long_second_us_.reserve(length_count);
    if (rest > 0) odd_first_us_.reserve(length_count), odd_second_us_.reserve(length_count);
    for (std::int64_t unit = 0; unit * step_ <= problem.rows; ++unit) {
      add(problem, cost, unit * step_, long_first_us_, long_second_us_);
      if (rest > 0) add(problem, cost, unit * step_ + rest, odd_first_us_, odd_second_us_);
    }
  }

  [[nodiscard]] double long_first_us(std::int64_t rows) const { return long_first_us_[index(rows)]; }
  [[nodiscard]] double long_second_us(std::int64_t rows) const { return long_second_us_[index(rows)]; }
  // Odd lengths are rows - count * long, so they share the remainder of rows; dividing drops it.
  [[nodiscard]] double odd_first_us(std::int64_t rows) const { return odd(odd_first_us_, long_first_us_)[index(rows)]; }
  [[nodiscard]] double odd_second_us(std::int64_t rows) const {
    return odd(odd_second_us_, long_second_us_)[index(rows)];
  }

 private:
  using Times = std::pmr::vector<double>;

  static void add(const Problem& problem, const VariantCost& cost, std::int64_t rows, Times& first, Times& second) {
    first.push_back(problem.lane_us(cost, true, rows, true));
    second.push_back(problem.lane_us(cost, false, rows, true));
  }
  /// If rows has no remainder, odd blocks have lengths that the table of long blocks holds.
  [[nodiscard]] static const Times& odd(const Times& own, const Times& of_long) { return own.empty() ? of_long : own; }
  [[nodiscard]] std::size_t index(std::int64_t rows) const { return static_cast<std::size_t>(rows / step_); }

  std::int64_t step_;
  Times long_first_us_, long_second_us_, odd_first_us_, odd_second_us_;
};

/// Computes the objective of family members of one variant. The table must outlive it.
class MemberScore {
 public:
  MemberScore(const Problem& problem, const VariantCost& cost, const CostTable& table)
      : table_(table),
        contention_(problem.slowdown(cost)),
        objective_(problem, cost),
        passing_(problem, cost),
        overhead_us_(cost.overhead_us()) {}

  [[nodiscard]] const BlockPassing& passing() const noexcept { return passing_; }

  /// @param local_us  of the variant's local part
  [[nodiscard]] double score_us(const BlockSplit& member, double local_us) const {
    return objective_.score_us(
        [&](double first, double second) { return makespan_us(member, local_us, first, second); });
  }

  /// Makespan with every block of a lane stretched: the longest path through the pipeline (the shortest where overlap
  /// gains nothing). A path follows the first lane to one block, changes lanes there and follows the second; among
  /// equal blocks the change belongs at one of the two ends, so a member takes O(1). docs/cost_model.md §5.
  [[nodiscard]] double makespan_us(const BlockSplit& m, double local_us, double first = 1,
                                   double second = 1) const noexcept {
    const PathShare each =
        share(m.long_rows, first * table_.long_first_us(m.long_rows), second * table_.long_second_us(m.long_rows));
    if (m.odd_rows == 0) return makespan_us(m, second * local_us, each, each);
    return makespan_us(
        m, second * local_us, each,
        share(m.odd_rows, first * table_.odd_first_us(m.odd_rows), second * table_.odd_second_us(m.odd_rows)));
  }

  /// The makespan from the path shares of a long block and of the odd one.
  [[nodiscard]] double makespan_us(const BlockSplit& m, double local_us, const PathShare& each,
                                   const PathShare& odd) const noexcept {
    const auto others = static_cast<double>(m.long_count - 1);
    const double stay_us = overhead_us_ + local_us, change_us = overhead_us_ + contention_.kappa * local_us;
    // The change of lanes in the first or in the last of the long blocks.
    const double early_us = each.change + others * each.behind, late_us = others * each.before + each.change;
    const double behind_us = others * each.behind + each.behind;
    if (m.odd_rows == 0) return extreme(stay_us + behind_us, change_us + extreme(early_us, late_us));
    const double all_behind_us = stay_us + odd.behind + behind_us;
    if (m.is_odd_first)
      return extreme(all_behind_us,
                     change_us + extreme(odd.change + behind_us, odd.before + extreme(early_us, late_us)));
    const double before_us = others * each.before + each.before;
    return extreme(all_behind_us, change_us + extreme(extreme(early_us, late_us) + odd.behind, before_us + odd.change));
  }

  /// The path share of a long block.
  [[nodiscard]] PathShare long_share(std::int64_t rows) const noexcept {
    return share(rows, table_.long_first_us(rows), table_.long_second_us(rows));
  }
  /// Whether a member's time is its longest path, not its shortest.
  [[nodiscard]] bool is_overlap_useful() const noexcept { return contention_.is_overlap_useful; }

 private:
  [[nodiscard]] PathShare share(std::int64_t rows, double first_us, double second_us) const noexcept {
    return {first_us, second_us, contention_, passing_.slices(rows)};
  }
  [[nodiscard]] double extreme(double a, double b) const noexcept {
    return contention_.is_overlap_useful ? std::max(a, b) : std::min(a, b);
  }

  const CostTable& table_;
  Contention contention_;
  Objective objective_;
  BlockPassing passing_;
  double overhead_us_;
};

} // namespace mc2::planner::strategies
