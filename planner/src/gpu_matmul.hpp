#pragma once

#include <map>
#include <optional>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::planner {

/// What sets the time of a matmul of 16-bit numbers on a GPU, in us. Source: docs/cost_model.md §12.
struct GpuRates {
  double launch_us = 0;          ///< of a matmul, whatever its size
  double multiply_us = 0;        ///< of an SM, for each element of its tile and 64 of k
  double load_us = 0;            ///< of an SM, for each row of A and column of B of its tile and 64 of k
  double element_us = 0;         ///< of a tile's element, once
  double wave_us = 0;            ///< of a wave, whatever its tiles
  double memory_us_per_byte = 0; ///< of what is read and written once
  double cache_us_per_byte = 0;  ///< where all of it stays in the L2 cache from one matmul to the next
  double cached_bytes = 0;       ///< which so much does, and of twice as much nothing
  int sm_count = 0;
};

/// Of the devices that were measured; empty for others, for what multiplies nothing, for blocks of columns and for
/// other types than f16 and bf16.
[[nodiscard]] std::optional<GpuRates> gpu_rates(const Fingerprint& fingerprint, const OpSpec& op);

/// 0 where it does not say.
[[nodiscard]] int sm_count_of(const Fingerprint& fingerprint);

/// What a variant leaves to the matmul of a GPU's so many.
[[nodiscard]] int matmul_sms(const Variant& variant, int sm_count);

/// Of each tile; of kTileStoreVariant.
[[nodiscard]] int tile_store_columns(const Variant& variant);

/// The library's matmul with the tile that suits the shape best: waves of tiles, one tile to an SM, or what memory
/// takes, whichever is longer. Never falls with rows.
class MatmulTimes {
 public:
  MatmulTimes(const GpuRates& rates, double n, double k, int sm_count);
  /// Of `batch` products of the same B, of so many rows each.
  [[nodiscard]] double us(double rows, double batch) const;

 private:
  struct Tile {
    double rows, side_by_side, wave_us, once_us;
  };
  [[nodiscard]] double move_us(double bytes) const;

  GpuRates rates_;
  double n_, k_, sm_count_;
  std::vector<Tile> tiles_;
};

/// What a variant multiplies for a block of the cut axis: all other shards' rows at once or, where it hands a block
/// over in slices, each slice's by itself.
class BlockWaves {
 public:
  BlockWaves(const GpuRates& rates, const OpSpec& op, const Variant& variant);
  [[nodiscard]] double us(double block_rows) const;
  /// Of rows that touch, such as the own shard's.
  [[nodiscard]] double at_once_us(double rows) const { return times_.us(rows, 1); }

 private:
  MatmulTimes times_;
  std::map<double, int> slices_; ///< how many there are of each number of shards
};

} // namespace mc2::planner
