#include "mc2/planner/tile_waves.hpp"

#include <algorithm>

#include "gpu_matmul.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::planner {

TileWaves::TileWaves(const OpSpec& op, int tile_columns, int sm_count) noexcept : sm_count_(sm_count) {
  const int shards = traits_of(op.kind).has_row_shards ? op.world_size : 1;
  tiles_per_tile_row_ = ceil_div(op.n, tile_columns) * shards;
  filled_per_tile_row_ = static_cast<double>(op.n) / tile_columns * shards;
}

// Nine tenths of a wave count as one.
bool TileWaves::is_wave(std::int64_t block_rows) const noexcept {
  return 10 * block_rows * tiles_per_tile_row_ >= 9 * kTileRows * sm_count_;
}

std::int64_t TileWaves::wave_count(std::int64_t block_rows) const noexcept {
  const std::int64_t wave = 10 * kTileRows * sm_count_; // in tenths of a tile's rows
  return std::max<std::int64_t>(1, ceil_div(10 * block_rows * tiles_per_tile_row_ - wave / 10, wave));
}

std::int64_t TileWaves::least_rows() const noexcept {
  return ceil_div(9 * kTileRows * sm_count_, 10 * tiles_per_tile_row_);
}

double TileWaves::whole_waves_ratio(std::int64_t rows) const noexcept {
  const std::int64_t waves = ceil_div(tiles_per_tile_row_ * ceil_div(rows, kTileRows), sm_count_);
  return static_cast<double>(waves * sm_count_) / (filled_per_tile_row_ * static_cast<double>(rows) / kTileRows);
}

std::vector<std::int64_t> TileWaves::taken_together(const std::vector<std::int64_t>& block_rows) const {
  std::vector<std::int64_t> taken;
  for (const std::int64_t rows : block_rows) {
    if (taken.empty() || is_wave(taken.back()))
      taken.push_back(rows);
    else
      taken.back() += rows;
  }
  if (taken.size() > 1 && !is_wave(taken.back())) {
    const std::int64_t rest = taken.back();
    taken.pop_back();
    taken.back() += rest;
  }
  return taken;
}

std::optional<TileWaves> tile_waves(const OpSpec& op, const Variant& variant, const Fingerprint& machine) {
  const OpTraits& traits = traits_of(op.kind);
  const bool is_summed = traits.sums() && traits.work == Work::Matmul;
  const int sm_count = matmul_sms(variant, sm_count_of(machine));
  if (variant.name != kTileStoreVariant || !is_summed || cut_axis(op) != CutAxis::Rows || sm_count < 1)
    return std::nullopt;
  return TileWaves(op, tile_store_columns(variant), sm_count);
}

} // namespace mc2::planner
