#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// Waves of one kernel that multiplies the tiles of all blocks, one tile to an SM at a time. Tiles of a wave end
/// together, so less than a wave never goes from lane to lane. Source: docs/cost_model.md §4.
class TileWaves {
 public:
  static constexpr int kTileRows = 128; ///< of any tile

  /// @param tile_columns, sm_count  at least 1
  TileWaves(const OpSpec& op, int tile_columns, int sm_count) noexcept;

  /// Whether blocks of so many rows of the cut axis have a wave of tiles, or nearly.
  [[nodiscard]] bool is_wave(std::int64_t block_rows) const noexcept;
  /// Waves that blocks of so many rows take, the last of them perhaps ragged; at least 1.
  [[nodiscard]] std::int64_t wave_count(std::int64_t block_rows) const noexcept;
  /// The fewest rows that are a wave.
  [[nodiscard]] std::int64_t least_rows() const noexcept;
  /// What a run of so many rows takes over the tiles in them: the last wave takes as long as a full one, and so does a
  /// ragged tile. Source: docs/cost_model.md §12.
  [[nodiscard]] double whole_waves_ratio(std::int64_t rows) const noexcept;
  /// Blocks as the kernel takes them: each with those behind it until they have a wave together; a rest that has none
  /// goes with the last.
  [[nodiscard]] std::vector<std::int64_t> taken_together(const std::vector<std::int64_t>& block_rows) const;

 private:
  std::int64_t tiles_per_tile_row_; ///< of all shards
  double filled_per_tile_row_;      ///< the same without what ragged tiles lack
  std::int64_t sm_count_;
};

/// Of a variant whose blocks share waves, kTileStoreVariant, on a machine that says how many SMs it has.
[[nodiscard]] std::optional<TileWaves> tile_waves(const OpSpec& op, const Variant& variant, const Fingerprint& machine);

} // namespace mc2::planner

#pragma GCC visibility pop
