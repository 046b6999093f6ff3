#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// Waves of one kernel that multiplies the tiles of all blocks. A wave has one tile for each SM. The tiles of a wave
/// end together, so never less than a wave passes from lane to lane. Source: docs/cost_model.md §4.
class TileWaves {
 public:
  static constexpr int kTileRows = 128; ///< rows of any tile

  /// @param tile_columns, sm_count  at least 1
  TileWaves(const OpSpec& op, int tile_columns, int sm_count) noexcept;

  /// Whether a block of `block_rows` rows of the cut axis has the tiles of nine tenths of a wave or more.
  [[nodiscard]] bool is_wave(std::int64_t block_rows) const noexcept;
  /// Number of waves of such a block, at least 1. A last wave that is not full counts if it has more than a tenth.
  [[nodiscard]] std::int64_t wave_count(std::int64_t block_rows) const noexcept;
  /// The fewest rows for which is_wave() holds.
  [[nodiscard]] std::int64_t least_rows() const noexcept;
  /// Time of a run of `rows` rows in whole waves, over the time of its rows at the rate of full waves of full tiles.
  /// A last wave takes as long as a full one, a ragged tile as long as a full tile. Source: docs/cost_model.md §12.
  [[nodiscard]] double whole_waves_ratio(std::int64_t rows) const noexcept;
  /// Blocks as the kernel takes them. A block that is no wave is merged with the blocks behind it until together they
  /// are one. A rest that is no wave is merged with the last.
  [[nodiscard]] std::vector<std::int64_t> taken_together(const std::vector<std::int64_t>& block_rows) const;

 private:
  std::int64_t tiles_per_tile_row_; ///< tiles side by side, over all shards
  double filled_per_tile_row_;      ///< likewise, but a ragged tile counts by its filled part
  std::int64_t sm_count_;
};

/// The waves of kTileStoreVariant, whose blocks share waves, on a machine that says how many SMs it has. Empty for
/// other variants and machines, and unless the operator is a plain matmul that sums over ranks and is cut by rows.
[[nodiscard]] std::optional<TileWaves> tile_waves(const OpSpec& op, const Variant& variant, const Fingerprint& machine);

} // namespace mc2::planner

#pragma GCC visibility pop
