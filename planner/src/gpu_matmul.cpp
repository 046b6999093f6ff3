#include "gpu_matmul.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

namespace mc2::planner {
namespace {

constexpr double kDepth = 64; ///< of k that a tile takes at a time
/// Rows and columns of the tiles that cuBLASLt 13 chooses most on Hopper. With rare ones, too, the best of so many is
/// faster than what the library chooses.
constexpr std::array<std::array<int, 2>, 20> kTiles{{{16, 64},   {16, 128},  {32, 64},   {48, 64},   {48, 128},
                                                     {64, 64},   {64, 96},   {64, 128},  {64, 320},  {80, 128},
                                                     {104, 64},  {128, 96},  {128, 128}, {128, 192}, {128, 256},
                                                     {128, 320}, {160, 128}, {192, 128}, {192, 192}, {256, 128}}};

/// By tests/bench/matmul_rates.py from data/gpu/matmuls_h100.csv; of an H200 all but its memory is the same.
struct MeasuredGpu {
  std::string_view model; ///< how "gpu_model" starts
  double memory_us_per_byte;
};
constexpr std::array kMeasuredGpus{MeasuredGpu{"NVIDIA H100 80GB HBM3", 3.59e-7}, MeasuredGpu{"NVIDIA H200", 2.51e-7}};

/// A tile's two limits: neither hides the other wholly near where they meet.
double blended(double a, double b) { return std::sqrt(std::sqrt(a * a * a * a + b * b * b * b)); }

/// The same of compute and memory, which meet more sharply.
double longer_of(double a, double b) { return std::cbrt(std::sqrt(std::pow(a, 6) + std::pow(b, 6))); }

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
  return GpuRates{1.70, 2.23e-5, 9.24e-4, 2.22e-5, 2.62, device->memory_us_per_byte, 1.81e-7, 2.30e7, sm_count};
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

MatmulTimes::MatmulTimes(const GpuRates& rates, double n, double k, int sm_count)
    : rates_(rates), n_(n), k_(k), sm_count_(sm_count) {
  for (const auto& [rows, columns] : kTiles) {
    const double step_us = blended(rates.multiply_us * rows * columns, rates.load_us * (rows + columns));
    tiles_.push_back({static_cast<double>(rows), std::ceil(n / columns),
                      std::ceil(k / kDepth) * step_us + rates.wave_us, rates.element_us * rows * columns});
  }
}

double MatmulTimes::move_us(double bytes) const {
  const double cached = std::clamp(2 - bytes / rates_.cached_bytes, 0.0, 1.0);
  return bytes * (cached * rates_.cache_us_per_byte + (1 - cached) * rates_.memory_us_per_byte);
}

double MatmulTimes::us(double rows, double batch) const {
  double compute_us = std::numeric_limits<double>::infinity();
  for (const Tile& tile : tiles_) {
    const double count = std::ceil(rows / tile.rows) * batch * tile.side_by_side;
    compute_us = std::min(compute_us, std::ceil(count / sm_count_) * tile.wave_us + tile.once_us);
  }
  const double all_rows = rows * batch, elements = all_rows * k_ + k_ * n_ + all_rows * n_;
  return rates_.launch_us + longer_of(compute_us, move_us(2 * elements));
}

BlockWaves::BlockWaves(const GpuRates& rates, const OpSpec& op, const Variant& variant)
    : times_(rates, static_cast<double>(op.n), static_cast<double>(op.k), matmul_sms(variant, rates.sm_count)) {
  const OpTraits& traits = traits_of(op.kind);
  const int shards = traits.has_row_shards ? op.world_size - (traits.has_local_part ? 1 : 0) : 1;
  const Slices slices = slices_of(variant);
  for (const double share : slices.shares()) ++slices_[share * shards];
}

double BlockWaves::us(double block_rows) const {
  double sum_us = 0;
  for (const auto& [shards, count] : slices_) sum_us += count * times_.us(block_rows, shards);
  return sum_us;
}

} // namespace mc2::planner
