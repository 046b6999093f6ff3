#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mc2/planner/plan_ranges.hpp"
#include "mc2/planner/slices.hpp"
#include "mc2/planner/tile_waves.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// How blocks of one variant pass from lane to lane. The problem's options must outlive it.
/// Source: docs/cost_model.md §4.
class BlockPassing {
 public:
  BlockPassing(const Problem& problem, const VariantCost& cost);

  /// The slices of a block of `block_rows` rows of the cut axis. They are the variant's or, where blocks share waves,
  /// one for each wave. An all-reduce keeps the variant's, because its ranks send sums on when a whole block is summed.
  [[nodiscard]] const Slices& slices(std::int64_t block_rows) const noexcept;
  /// Lengths of the blocks that pass: the cut's blocks, some of which are merged where they share waves.
  [[nodiscard]] std::vector<std::int64_t> passing_rows(const Cut& cut) const;
  /// Spans of the cut's blocks on a lane, from those of the blocks that passed. Spans before them, such as the local
  /// part's, stay as they are.
  [[nodiscard]] std::vector<Span> spans_of_blocks(const Cut& cut, const std::vector<Span>& passed) const;
  /// The problem's options, with min_block_rows raised so that every block passes by itself.
  [[nodiscard]] PlanOptions options() const;
  /// Whether a block of a cut is shorter than a wave, so that it shares one with another block.
  [[nodiscard]] bool shares_waves(const BlockSplit& split) const noexcept;
  /// For an axis of less than two waves: two about equal blocks, which pass as one. options() excludes such short
  /// blocks, so the searches score this cut separately. It differs from uncut by the factors that blocks of a cut have.
  /// None if no such cut is legal.
  [[nodiscard]] std::optional<BlockSplit> halves_of_one(std::int64_t rows) const noexcept;

 private:
  const PlanOptions& options_;
  std::optional<TileWaves> waves_;
  Slices slices_;       ///< the variant's
  bool passes_by_wave_; ///< blocks pass in one slice for each wave, not in slices_
};

} // namespace mc2::planner::strategies
