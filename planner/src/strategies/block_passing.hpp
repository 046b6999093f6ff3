#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mc2/planner/plan_ranges.hpp"
#include "mc2/planner/slices.hpp"
#include "mc2/planner/tile_waves.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// How blocks of one variant go from lane to lane. The problem's options must outlive it. Source: docs/cost_model.md
/// §4.
class BlockPassing {
 public:
  BlockPassing(const Problem& problem, const VariantCost& cost);

  /// Of a block of so many rows of the cut axis: the variant's; where blocks share waves one for each wave, but for an
  /// all-reduce, whose ranks send sums on when all of a block is summed.
  [[nodiscard]] const Slices& slices(std::int64_t block_rows) const noexcept;
  /// The blocks that pass: those of the cut, or some of them together.
  [[nodiscard]] std::vector<std::int64_t> passing_rows(const Cut& cut) const;
  /// The cut's blocks on a lane, from those that passed; what passed before them stays as it is.
  [[nodiscard]] std::vector<Span> spans_of_blocks(const Cut& cut, const std::vector<Span>& passed) const;
  /// The problem's options, without blocks that would not pass by themselves.
  [[nodiscard]] PlanOptions options() const;
  /// Whether blocks of a cut share a wave.
  [[nodiscard]] bool shares_waves(const BlockSplit& split) const noexcept;
  /// Of an axis of less than two waves, two about equal blocks, which pass as one. Without options() that allow them
  /// the searches price them apart: as blocks of a cut they have its factors. None where no such cut is legal.
  [[nodiscard]] std::optional<BlockSplit> halves_of_one(std::int64_t rows) const noexcept;

 private:
  const PlanOptions& options_;
  std::optional<TileWaves> waves_;
  Slices slices_;       ///< of the variant
  bool passes_by_wave_; ///< not in those, but in one for each wave
};

} // namespace mc2::planner::strategies
