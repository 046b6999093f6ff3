#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/matmul_tile.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::planner {

/// The rates that set the time of a matmul of 16-bit numbers on a GPU, in us. Source: docs/cost_model.md §12.
struct GpuRates {
  double launch_us = 0;          ///< per matmul, whatever its size
  double multiply_us = 0;        ///< of an SM, for each element of its tile and 64 steps of k
  double load_us = 0;            ///< of an SM, for each row of A and column of B of its tile and 64 steps of k
  double element_us = 0;         ///< per element of a tile, once
  double wave_us = 0;            ///< per wave, whatever its tiles
  double memory_us_per_byte = 0; ///< of operands and product, each byte counted once
  double cache_us_per_byte = 0;  ///< likewise, if all bytes stay in the L2 cache from one matmul to the next
  double cached_bytes = 0;       ///< up to this many bytes all stay in the cache; from twice as many on, none do
  double join_us = 0;            ///< once, for adding up the parts of k
  double join_us_per_byte = 0;   ///< likewise, of the parts' products in f32
  int sm_count = 0;
  /// the rates are those of mc2's own kernel, which multiplies the rows of several experts at once
  bool is_grouped = false;
};

/// The rates of a device that was measured. Empty for other devices, for pooling, for blocks of columns, for other
/// types than f16 and bf16, and for experts whose n or k is no multiple of 8.
[[nodiscard]] std::optional<GpuRates> gpu_rates(const Fingerprint& fingerprint, const OpSpec& op);

/// Number of SMs of the device; 0 if the fingerprint does not say.
[[nodiscard]] int sm_count_of(const Fingerprint& fingerprint);

/// Whether the rates describe a variant's matmul. Grouped rates do not describe a variant that names a tile of the
/// library, because it multiplies experts one by one.
[[nodiscard]] bool are_rates_of(const GpuRates& rates, const Variant& variant);

/// Number of SMs that a variant's matmul uses, of the GPU's `sm_count`.
[[nodiscard]] int matmul_sms(const Variant& variant, int sm_count);

/// Columns of each tile of kTileStoreVariant.
[[nodiscard]] int tile_store_columns(const Variant& variant);

/// Rows that one kernel multiplies, each by its expert's matrix. If rows choose experts, the numbers are expected ones.
struct ExpertRows {
  double rows = 0;
  double row_tiles = 0; ///< tiles of up to 128 rows, each of one expert
  double experts = 0;   ///< experts that have any rows
};

/// Rows that choose experts as they do in a profile: expert floor(E u u) of E, u uniform (docs/operators.md).
[[nodiscard]] ExpertRows rows_of_choices(const ChosenExperts& experts, double token_count);

/// The tile that a variant names. Its setting gives columns x rows, because the library computes the transposed
/// product.
[[nodiscard]] std::optional<MatmulTile> named_tile(const Variant& variant);

/// Time of a matmul with the tile and the parts of k that suit the shape best, or with given ones. It is the longer of
/// two times: that of the waves of tiles, one tile to an SM, and that of memory. Never falls with rows.
class MatmulTimes {
 public:
  MatmulTimes(const GpuRates& rates, double n, double k, int sm_count);
  /// With a given tile.
  MatmulTimes(const GpuRates& rates, double n, double k, int sm_count, const MatmulTile& tile);
  /// `batch` products with the same B, of `rows` rows each.
  [[nodiscard]] double us(double rows, double batch) const;
  /// Products of experts, each with its own B.
  [[nodiscard]] double us(const ExpertRows& experts) const;

 private:
  struct Tile {
    double rows, side_by_side, wave_us, once_us;
  };
  /// Tiles that multiply so many parts of k apart.
  struct Split {
    int k_parts;
    std::vector<Tile> tiles;
  };
  void add(const MatmulTile& tile, double slowness);
  [[nodiscard]] double move_us(double bytes) const;
  /// @param row_tiles  gives the number of tiles below one another for a Tile
  template <typename RowTiles>
  [[nodiscard]] double us_of(const RowTiles& row_tiles, double rows, double matrices) const;

  GpuRates rates_;
  double n_, k_, sm_count_;
  std::vector<Split> splits_;
};

/// Time that a variant's matmul takes for a block of the cut axis. It multiplies the rows of all shards (with a local
/// part: of all other ranks' shards) at once or, if the variant passes a block in slices, slice by slice. If rows
/// choose experts, gathering rows and adding up products is included.
class BlockWaves {
 public:
  BlockWaves(const GpuRates& rates, const OpSpec& op, const Variant& variant);
  [[nodiscard]] double us(double block_rows) const;
  /// Time of one matmul of contiguous rows, such as those of the own shard.
  [[nodiscard]] double at_once_us(double rows) const;

 private:
  [[nodiscard]] double chosen_us(double token_count) const;
  [[nodiscard]] double held_us(double block_rows, double shards) const;

  OpSpec op_;
  bool is_grouped_;
  MatmulTimes times_;
  std::map<double, int> slices_; ///< by number of shards in a slice: how many such slices
};

} // namespace mc2::planner
