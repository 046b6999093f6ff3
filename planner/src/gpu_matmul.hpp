#pragma once

#include <map>
#include <optional>
#include <span>
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
  /// of mc2's own kernel, which multiplies several experts' rows at once, not of the library's
  bool is_grouped = false;
};

/// Of the devices that were measured; empty for others, for what multiplies nothing, for blocks of columns, for other
/// types than f16 and bf16, and for experts whose n or k is no multiple of 8.
[[nodiscard]] std::optional<GpuRates> gpu_rates(const Fingerprint& fingerprint, const OpSpec& op);

/// 0 where it does not say.
[[nodiscard]] int sm_count_of(const Fingerprint& fingerprint);

/// Whether a variant's matmul is the one that the rates are of: with a tile of the library's, experts are multiplied
/// one by one.
[[nodiscard]] bool are_rates_of(const GpuRates& rates, const Variant& variant);

/// What a variant leaves to the matmul of a GPU's so many.
[[nodiscard]] int matmul_sms(const Variant& variant, int sm_count);

/// Of each tile; of kTileStoreVariant.
[[nodiscard]] int tile_store_columns(const Variant& variant);

/// Rows that one kernel multiplies, each by its expert's matrix. Expected numbers, where rows choose.
struct ExpertRows {
  double rows = 0;
  double row_tiles = 0; ///< of 128 rows of one expert, or what it has of them
  double experts = 0;   ///< that have any rows
};

/// Of rows that choose as they do where a plan is profiled: expert floor(E u u) of E, u uniform (docs/operators.md).
[[nodiscard]] ExpertRows rows_of_choices(const ChosenExperts& experts, double token_count);

/// Rows and columns of C that an SM multiplies at once.
struct TileSize {
  int rows = 0, columns = 0;
};

/// The same of a matmul with a given tile: a tile that suits no better than others is not as fast as the best of many
/// is said to be.
[[nodiscard]] GpuRates of_named_tile(const GpuRates& rates);

/// The one that a variant names, "columns x rows" of the library's product, which is the transposed one.
[[nodiscard]] std::optional<TileSize> named_tile(const Variant& variant);

/// The matmul with the tile that suits the shape best, or a given one: waves of tiles, one tile to an SM, or what
/// memory takes, whichever is longer. Never falls with rows.
class MatmulTimes {
 public:
  MatmulTimes(const GpuRates& rates, double n, double k, int sm_count);
  /// @param rates  of_named_tile()
  MatmulTimes(const GpuRates& rates, double n, double k, int sm_count, const TileSize& tile);
  /// Of `batch` products of the same B, of so many rows each.
  [[nodiscard]] double us(double rows, double batch) const;
  /// Of experts, each with its own B.
  [[nodiscard]] double us(const ExpertRows& experts) const;

 private:
  struct Tile {
    double rows, side_by_side, wave_us, once_us;
  };
  MatmulTimes(const GpuRates& rates, double n, double k, int sm_count, std::span<const TileSize> tiles);
  [[nodiscard]] double move_us(double bytes) const;
  /// @param row_tiles  how many there are of a tile
  template <typename RowTiles>
  [[nodiscard]] double us_of(const RowTiles& row_tiles, double rows, double matrices) const;

  GpuRates rates_;
  double n_, k_, sm_count_;
  std::vector<Tile> tiles_;
};

/// What a variant multiplies for a block of the cut axis: all other shards' rows at once or, where it hands a block
/// over in slices, each slice's by itself. Where rows choose experts, with gathering and adding up.
class BlockWaves {
 public:
  BlockWaves(const GpuRates& rates, const OpSpec& op, const Variant& variant);
  [[nodiscard]] double us(double block_rows) const;
  /// Of rows that touch, such as the own shard's.
  [[nodiscard]] double at_once_us(double rows) const;

 private:
  [[nodiscard]] double chosen_us(double token_count) const;
  [[nodiscard]] double held_us(double block_rows, double shards) const;

  OpSpec op_;
  bool is_grouped_;
  MatmulTimes times_;
  std::map<double, int> slices_; ///< how many there are of each number of shards
};

} // namespace mc2::planner
