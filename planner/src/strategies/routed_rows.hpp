#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mc2/planner/op_spec.hpp"

namespace mc2::planner::strategies {

/// How many rows each rank has in a block where ranks have unequally many for each other, in rows of the cut axis: so
/// many rows of every pair would be as many. A block [first, first + length) takes those rows of every pair, as far as
/// the pair has them. Ranks that have the same rows are one here. docs/cost_model.md §4.
class RoutedRows {
 public:
  /// Legal ones, not empty.
  RoutedRows(const OpSpec& op, std::span<const std::int64_t> counts);

  [[nodiscard]] int rank_count() const noexcept { return static_cast<int>(ranks_.size()); }
  /// What the rank multiplies, without its local part.
  [[nodiscard]] double compute_rows(int rank, std::int64_t first, std::int64_t length) const noexcept;
  /// Of the rank's own, where they need no communication.
  [[nodiscard]] double local_rows(int rank) const noexcept;
  /// As many as the rank receives; or as the busiest sender sends, whom it waits for.
  /// @param most_sent most_sent_rows() of the block
  [[nodiscard]] double exchange_rows(int rank, std::int64_t first, std::int64_t length,
                                     double most_sent) const noexcept;
  [[nodiscard]] double most_sent_rows(std::int64_t first, std::int64_t length) const noexcept;

 private:
  /// Some pairs' counts. Their rows up to x are the sum of min(count, x).
  class Pairs {
   public:
    void add(std::int64_t count) { counts_.push_back(count); }
    void sort();
    [[nodiscard]] double rows(std::int64_t first, std::int64_t length) const noexcept {
      return up_to(first + length) - up_to(first);
    }
    auto operator<=>(const Pairs&) const = default;

   private:
    [[nodiscard]] double up_to(std::int64_t x) const noexcept;
    std::vector<std::int64_t> counts_; ///< ascending
    std::vector<double> sums_;         ///< of so many of the smallest
  };
  struct Rank {
    Pairs multiplied, received, sent;
    double local = 0;
    auto operator<=>(const Rank&) const = default;
  };

  std::vector<Rank> ranks_;
  double compute_shards_, exchange_shards_; ///< full pairs whose rows a row of the cut axis stands for
};

} // namespace mc2::planner::strategies
