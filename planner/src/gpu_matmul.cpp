#include "gpu_matmul.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "mc2/planner/tile_waves.hpp"

namespace mc2::planner {
namespace {

constexpr double kDepth = 64; ///< of k that a tile takes at a time
/// Tiles that cuBLASLt 13 has for Hopper, but for those of few columns that are many rows high, which it hardly
/// chooses.
constexpr std::array kTileRows{16, 32, 48, 64, 80, 96, 104, 128, 160, 192, 256};
constexpr std::array kTileColumns{64, 96, 128, 160, 192, 224, 256, 320};
constexpr int kMostElements = 320 * 128;

/// Fitted to 880 matmuls of an H100, data/gpu/matmuls_h100.csv; of an H200 all but its memory is the same.
struct MeasuredGpu {
  std::string_view model; ///< how "gpu_model" starts
  double memory_us_per_byte;
};
constexpr std::array kMeasuredGpus{MeasuredGpu{"NVIDIA H100 80GB HBM3", 3.38e-7}, MeasuredGpu{"NVIDIA H200", 2.4e-7}};

/// A tile's two limits: neither hides the other wholly near where they meet.
double blended(double a, double b) { return std::sqrt(std::sqrt(a * a * a * a + b * b * b * b)); }

/// The same of compute and memory, which meet more sharply.
double longer_of(double a, double b) { return std::cbrt(std::sqrt(std::pow(a, 6) + std::pow(b, 6))); }

/// Of all tiles, each of these many rows and columns.
double tiles_us(const GpuRates& rates, const GpuMatmul& matmul, double rows, double columns) {
  const double count = std::ceil(matmul.rows / rows) * matmul.batch * std::ceil(matmul.n / columns);
  const double waves = std::ceil(count / matmul.sm_count);
  const double step_us = blended(rates.multiply_us * rows * columns, rates.load_us * (rows + columns));
  return waves * (std::ceil(matmul.k / kDepth) * step_us + rates.wave_us) + rates.element_us * rows * columns;
}

/// 0 where it is none.
int number_in(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// 0 where there is none.
int count_in(const std::map<std::string, std::string>& fields, std::string_view key) {
  const auto found = fields.find(std::string(key));
  return found == fields.end() ? 0 : number_in(found->second);
}

} // namespace

std::optional<GpuRates> gpu_rates(const Fingerprint& fingerprint, const OpSpec& op) {
  if (op.dtype != DType::F16 && op.dtype != DType::Bf16) return std::nullopt;
  if (traits_of(op.kind).work != Work::Matmul || cut_axis(op) != CutAxis::Rows) return std::nullopt;
  const auto model = fingerprint.fields.find("gpu_model");
  if (model == fingerprint.fields.end()) return std::nullopt;
  const auto device =
      std::ranges::find_if(kMeasuredGpus, [&](const MeasuredGpu& one) { return model->second.starts_with(one.model); });
  const int sm_count = sm_count_of(fingerprint);
  if (device == kMeasuredGpus.end() || sm_count < 1) return std::nullopt;
  return GpuRates{4.27, 2.24e-5, 9.05e-4, 1.32e-5, 2.40, device->memory_us_per_byte, sm_count};
}

GpuMatmul matmul_of_block(const GpuRates& rates, const OpSpec& op, const Variant& variant, double block_rows) {
  const OpTraits& traits = traits_of(op.kind);
  const int shards = traits.has_row_shards ? op.world_size - (traits.has_local_part ? 1 : 0) : 1;
  return {block_rows, static_cast<double>(shards), static_cast<double>(op.n), static_cast<double>(op.k),
          matmul_sms(variant, rates.sm_count)};
}

int sm_count_of(const Fingerprint& fingerprint) { return count_in(fingerprint.fields, "sm_count"); }

int matmul_sms(const Variant& variant, int sm_count) {
  const int given = count_in(variant.fields, kMatmulSmsSetting);
  return given > 0 ? std::min(given, sm_count) : sm_count;
}

int tile_store_columns(const Variant& variant) {
  constexpr int kDefaultColumns = 256;
  const int given = count_in(variant.fields, kTileSetting); // up to the x
  return given > 0 ? given : kDefaultColumns;
}

double whole_waves_ratio(const GpuRates& rates, const OpSpec& op, const Variant& variant) {
  constexpr double kRows = TileWaves::kTileRows;
  const double columns = tile_store_columns(variant);
  const auto rows = static_cast<double>(traits_of(op.kind).cut_axis_length(op));
  const GpuMatmul all = matmul_of_block(rates, op, variant, rows);
  const double tiles = all.batch * std::ceil(rows / kRows) * std::ceil(all.n / columns);
  const double filled = all.batch * rows / kRows * all.n / columns;
  return std::ceil(tiles / all.sm_count) * all.sm_count / filled;
}

double matmul_us(const GpuRates& rates, const GpuMatmul& matmul) {
  double compute_us = std::numeric_limits<double>::infinity();
  for (const int rows : kTileRows)
    for (const int columns : kTileColumns)
      if (rows * columns <= kMostElements && !((columns == 160 || columns == 224) && rows < 64))
        compute_us = std::min(compute_us, tiles_us(rates, matmul, rows, columns));
  const double all_rows = matmul.rows * matmul.batch;
  const double elements = all_rows * matmul.k + matmul.k * matmul.n + all_rows * matmul.n;
  return rates.launch_us + longer_of(compute_us, 2 * elements * rates.memory_us_per_byte);
}

} // namespace mc2::planner
