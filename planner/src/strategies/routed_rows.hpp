#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mc2/planner/op_spec.hpp"

namespace mc2::planner::strategies {

/// How many rows each rank has in a block if the ranks send each other unequal numbers of rows. A block
/// [first, first + length) takes these rows of every pair of ranks, as far as the pair has them. Results are in rows of
/// the cut axis: the block length that has as many rows if every pair is full. Ranks with the same rows are merged into
/// one. docs/cost_model.md §4.
class RoutedRows {
 public:
  /// @param counts  legal and not empty
  RoutedRows(const OpSpec& op, std::span<const std::int64_t> counts);

  [[nodiscard]] int rank_count() const noexcept { return static_cast<int>(ranks_.size()); }
  /// Rows that the rank multiplies, without its local part.
  [[nodiscard]] double compute_rows(int rank, std::int64_t first, std::int64_t length) const noexcept;
  /// Rows of the rank's local part; 0 for kinds without one.
  [[nodiscard]] double local_rows(int rank) const noexcept;
  /// Rows that set the time of the rank's exchange: those that it receives or, if more, those of the busiest sender,
  /// for which it waits. 0 if it receives none.
  /// @param most_sent most_sent_rows() of the block
  [[nodiscard]] double exchange_rows(int rank, std::int64_t first, std::int64_t length,
                                     double most_sent) const noexcept;
  /// Rows that the busiest sender sends to other ranks.
  [[nodiscard]] double most_sent_rows(std::int64_t first, std::int64_t length) const noexcept;
  /// How many equal pieces of a block the lanes can overlap where they pass it in `slice_count` pieces peer by peer:
  /// its rows over those of the peer that has most of them. 1 if one peer has all. The rows are those that the rank
  /// receives or, for kinds that compute first, those of the busiest sender, for which all wait. The rank itself is one
  /// of the peers where there are as many pieces as ranks. With other numbers of pieces they are not peers' and stay.
  [[nodiscard]] int piece_count(int rank, std::int64_t first, std::int64_t length, int slice_count) const noexcept;

 private:
  /// The counts of some pairs. Their number of rows up to x is the sum of min(count, x).
  class Pairs {
   public:
    void add(std::int64_t count) { counts_.push_back(count); }
    void sort();
    [[nodiscard]] double rows(std::int64_t first, std::int64_t length) const noexcept {
      return up_to(first + length) - up_to(first);
    }
    /// Of rows(), those of the pair that has most.
    [[nodiscard]] double most_rows(std::int64_t first, std::int64_t length) const noexcept;
    auto operator<=>(const Pairs&) const = default;

   private:
    [[nodiscard]] double up_to(std::int64_t x) const noexcept;
    std::vector<std::int64_t> counts_; ///< ascending
    std::vector<double> sums_;         ///< [i] is the sum of the i smallest counts
  };
  struct Rank {
    Pairs multiplied, received, sent;
    double local = 0;
    std::int64_t own = 0; ///< from the rank to itself
    auto operator<=>(const Rank&) const = default;
  };

  [[nodiscard]] static double pieces_of(const Pairs& peers, std::int64_t own, std::int64_t first, std::int64_t length);

  std::vector<Rank> ranks_;
  int world_size_;
  bool communicates_first_;
  double compute_shards_, exchange_shards_; ///< number of full pairs that a row of the cut axis stands for
};

} // namespace mc2::planner::strategies
