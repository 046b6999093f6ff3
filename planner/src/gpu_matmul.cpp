#include "gpu_matmul.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace mc2::planner {
namespace {

constexpr double kDepth = 64; ///< steps of k that a tile multiplies at a time
/// Rows and columns of the tiles that cuBLASLt 13 chooses most on Hopper. With rare tiles added, the best of them all
/// would be faster than the library's choice.
constexpr std::array<TileSize, 20> kTiles{{{16, 64},   {16, 128},  {32, 64},   {48, 64},   {48, 128},
                                           {64, 64},   {64, 96},   {64, 128},  {64, 320},  {80, 128},
                                           {104, 64},  {128, 96},  {128, 128}, {128, 192}, {128, 256},
                                           {128, 320}, {160, 128}, {192, 128}, {192, 192}, {256, 128}}};

/// Tiles of mc2's own kernel for several experts.
constexpr std::array<TileSize, 2> kGroupedTiles{{{128, 128}, {128, 256}}};
constexpr double kGroupedTileRows = 128;
constexpr std::int64_t kGroupedStep = 8; ///< the kernel takes only multiples as n and k

/// Fitted by tests/bench/matmul_rates.py: for one matrix to data/gpu/matmuls_h100.csv, for several experts to
/// data/gpu/grouped_matmuls_h200.csv. H100 and H200 differ in their memory's rate alone.
struct MeasuredGpu {
  std::string_view model; ///< how "gpu_model" starts
  double memory_us_per_byte;
  double grouped_memory_us_per_byte;
};
constexpr std::array kMeasuredGpus{MeasuredGpu{"NVIDIA H100 80GB HBM3", 3.59e-7, 3.65e-7},
                                   MeasuredGpu{"NVIDIA H200", 2.51e-7, 2.55e-7}};

/// Costs of a block beside a matmul whose rows choose experts: copying the rows of A by expert, and adding up a token's
/// products. The choices are sorted once a run. Fitted by matmul_rates.py to data/gpu/chosen_matmul_h200.csv.
constexpr double kGatherUsPerByte = 4.7e-7, kSumUsPerByte = 2.3e-7;

/// Joins a tile's two limits: near where they are equal, neither hides the other wholly.
double blended(double a, double b) { return std::sqrt(std::sqrt(a * a * a * a + b * b * b * b)); }

/// Joins the times of compute and memory likewise, with a sharper bend.
double longer_of(double a, double b) { return std::cbrt(std::sqrt(std::pow(a, 6) + std::pow(b, 6))); }

/// The number at the start of a text; 0 without one.
int number_in(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// The number at the start of a field; 0 without one.
int count_in(const std::map<std::string, std::string>& fields, std::string_view key) {
  const auto found = fields.find(std::string(key));
  return found == fields.end() ? 0 : number_in(found->second);
}

} // namespace

std::optional<GpuRates> gpu_rates(const Fingerprint& fingerprint, const OpSpec& op) {
  if (op.dtype != DType::F16 && op.dtype != DType::Bf16) return std::nullopt;
  if (traits_of(op.kind).work == Work::Pooling || cut_axis(op) != CutAxis::Rows) return std::nullopt;
  const bool is_grouped = op.experts || op.experts_per_rank > 1;
  if (is_grouped && (op.n % kGroupedStep != 0 || op.k % kGroupedStep != 0)) return std::nullopt;
  const std::string_view model = fingerprint.field("gpu_model");
  const auto device =
      std::ranges::find_if(kMeasuredGpus, [&](const MeasuredGpu& one) { return model.starts_with(one.model); });
  const int sm_count = sm_count_of(fingerprint);
  if (device == kMeasuredGpus.end() || sm_count < 1) return std::nullopt;
  if (!is_grouped)
    return GpuRates{1.70, 2.23e-5, 9.24e-4, 2.22e-5, 2.62, device->memory_us_per_byte, 1.81e-7, 2.30e7, sm_count};
  const double memory = device->grouped_memory_us_per_byte; // whether in the cache or not
  return GpuRates{0.746, 2.29e-5, 1.47e-3, 1.69e-4, 1.71, memory, memory, 1, sm_count, true};
}

bool are_rates_of(const GpuRates& rates, const Variant& variant) {
  return !rates.is_grouped || !variant.fields.contains(std::string(kTileSetting));
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

ExpertRows rows_of_choices(const ChosenExperts& experts, double token_count) {
  const double products = token_count * static_cast<double>(experts.top_k);
  const auto count = static_cast<double>(experts.count);
  ExpertRows result{.rows = products};
  // Neighbouring experts have about equally many rows, so of a great number of experts a few stand for all.
  constexpr double kMostLookedAt = 256;
  const double step = std::max(1.0, count / kMostLookedAt);
  for (double first = 0; first < count; first += step) {
    const double last = std::min(first + step, count), alike = last - first;
    const double rows = products * (std::sqrt(last / count) - std::sqrt(first / count)) / alike;
    const double any = 1 - std::exp(-rows);
    result.experts += alike * any;
    result.row_tiles += alike * any * std::ceil(std::max(rows, 1.0) / kGroupedTileRows);
  }
  return result;
}

std::optional<TileSize> named_tile(const Variant& variant) {
  const auto found = variant.fields.find(std::string(kTileSetting));
  if (found == variant.fields.end()) return std::nullopt;
  const std::string_view name = found->second;
  const TileSize tile{number_in(name.substr(std::min(name.find('x'), name.size() - 1) + 1)), number_in(name)};
  if (tile.rows < 1 || tile.columns < 1) return std::nullopt;
  return tile;
}

GpuRates of_named_tile(const GpuRates& rates) {
  constexpr double kMemoryShare = 0.973; // of the best tile's time per byte
  GpuRates named = rates;
  named.launch_us = 1.77;
  named.multiply_us = 2.235e-5;
  named.load_us = 7.28e-4;
  named.element_us = 7.45e-5;
  named.wave_us = 1.036;
  named.memory_us_per_byte *= kMemoryShare;
  named.cache_us_per_byte = 1.937e-7;
  return named;
}

MatmulTimes::MatmulTimes(const GpuRates& rates, double n, double k, int sm_count)
    : MatmulTimes(rates, n, k, sm_count, rates.is_grouped ? std::span<const TileSize>(kGroupedTiles) : kTiles) {}

MatmulTimes::MatmulTimes(const GpuRates& rates, double n, double k, int sm_count, const TileSize& tile)
    : MatmulTimes(rates, n, k, sm_count, {&tile, 1}) {}

MatmulTimes::MatmulTimes(const GpuRates& rates, double n, double k, int sm_count, std::span<const TileSize> tiles)
    : rates_(rates), n_(n), k_(k), sm_count_(sm_count) {
  for (const auto& [rows, columns] : tiles) {
    const double step_us = blended(rates.multiply_us * rows * columns, rates.load_us * (rows + columns));
    tiles_.push_back({static_cast<double>(rows), std::ceil(n / columns),
                      std::ceil(k / kDepth) * step_us + rates.wave_us, rates.element_us * rows * columns});
  }
}

double MatmulTimes::move_us(double bytes) const {
  const double cached = std::clamp(2 - bytes / rates_.cached_bytes, 0.0, 1.0);
  return bytes * (cached * rates_.cache_us_per_byte + (1 - cached) * rates_.memory_us_per_byte);
}

template <typename RowTiles>
double MatmulTimes::us_of(const RowTiles& row_tiles, double rows, double matrices) const {
  double compute_us = std::numeric_limits<double>::infinity();
  for (const Tile& tile : tiles_) {
    const double count = row_tiles(tile) * tile.side_by_side;
    compute_us = std::min(compute_us, std::ceil(count / sm_count_) * tile.wave_us + tile.once_us);
  }
  const double elements = rows * k_ + matrices * k_ * n_ + rows * n_;
  return rates_.launch_us + longer_of(compute_us, move_us(2 * elements));
}

double MatmulTimes::us(double rows, double batch) const {
  return us_of([&](const Tile& tile) { return std::ceil(rows / tile.rows) * batch; }, rows * batch, 1);
}

double MatmulTimes::us(const ExpertRows& experts) const {
  return us_of([&](const Tile& /*tile*/) { return experts.row_tiles; }, experts.rows, experts.experts);
}

namespace {

MatmulTimes times_of(const GpuRates& rates, const OpSpec& op, const Variant& variant) {
  const auto n = static_cast<double>(op.n), k = static_cast<double>(op.k);
  const int sm_count = matmul_sms(variant, rates.sm_count);
  const auto tile = named_tile(variant);
  return tile ? MatmulTimes(of_named_tile(rates), n, k, sm_count, *tile) : MatmulTimes(rates, n, k, sm_count);
}

} // namespace

BlockWaves::BlockWaves(const GpuRates& rates, const OpSpec& op, const Variant& variant)
    : op_(op), is_grouped_(rates.is_grouped), times_(times_of(rates, op, variant)) {
  const OpTraits& traits = traits_of(op.kind);
  const int shards = traits.has_row_shards ? op.world_size - (traits.has_local_part ? 1 : 0) : 1;
  const Slices slices = slices_of(variant);
  for (const double share : slices.shares()) ++slices_[share * shards];
}

double BlockWaves::us(double block_rows) const {
  double sum_us = 0;
  for (const auto& [shards, count] : slices_) {
    sum_us += count * (!is_grouped_  ? times_.us(block_rows, shards)
                       : op_.experts ? chosen_us(block_rows * shards)
                                     : held_us(block_rows, shards));
  }
  return sum_us;
}

double BlockWaves::at_once_us(double rows) const {
  if (!is_grouped_) return times_.us(rows, 1);
  if (op_.experts) return chosen_us(rows);
  const auto experts = static_cast<double>(op_.experts_per_rank);
  return times_.us(ExpertRows{rows, experts * std::ceil(rows / experts / kGroupedTileRows), experts});
}

double BlockWaves::chosen_us(double token_count) const {
  const ExpertRows rows = rows_of_choices(*op_.experts, token_count);
  double us = times_.us(rows) + kGatherUsPerByte * 2 * rows.rows * static_cast<double>(op_.k);
  if (traits_of(op_.kind).sums()) us += kSumUsPerByte * 2 * rows.rows * static_cast<double>(op_.n);
  return us;
}

/// The rows of each shard are sorted by expert, so a block has rows of few experts. The rows of several shards for one
/// expert are contiguous only if the block has all of that expert's rows.
double BlockWaves::held_us(double block_rows, double shards) const {
  const auto most = static_cast<double>(op_.experts_per_rank);
  const double of_expert = std::max(1.0, static_cast<double>(op_.m) / op_.world_size / most);
  const double whole = std::min(std::floor(block_rows / of_expert), most);
  const double rest = whole < most ? block_rows - whole * of_expert : 0;
  const double tiles =
      whole * std::ceil(of_expert * shards / kGroupedTileRows) + shards * std::ceil(rest / kGroupedTileRows);
  return times_.us(ExpertRows{block_rows * shards, tiles, whole + std::ceil(rest / of_expert)});
}

} // namespace mc2::planner
