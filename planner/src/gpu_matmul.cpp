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

/// A tile of C, and how much longer its steps take than the rates say.
struct KnownTile {
  int rows, columns;
  double slowness;
};
/// The tiles that cuBLASLt 13 offers most on Hopper. With rare tiles added, the best of them all would be faster than
/// what the library offers. Fitted by tests/bench/matmul_rates.py to data/gpu/library_matmuls_h200.csv.
constexpr std::array<KnownTile, 30> kTiles{
    {{16, 64, 1.39},   {16, 128, 1.16}, {16, 192, 1.14},  {16, 256, 1.07},  {32, 64, 1.20},   {48, 64, 1.13},
     {48, 128, 1.03},  {48, 256, 1.07}, {64, 32, 1.38},   {64, 64, 1.03},   {64, 96, 1.06},   {64, 128, 0.94},
     {64, 192, 0.96},  {64, 256, 0.96}, {64, 320, 0.98},  {64, 384, 1.04},  {80, 128, 0.95},  {96, 256, 1.00},
     {128, 64, 0.92},  {128, 96, 0.98}, {128, 128, 0.96}, {128, 192, 1.02}, {128, 256, 1.01}, {128, 320, 1.03},
     {160, 128, 0.97}, {192, 64, 0.95}, {192, 128, 1.02}, {192, 192, 1.02}, {256, 64, 0.95},  {256, 128, 1.01}}};
/// Numbers of parts into which the library splits k where tiles are few, and the least depth of a part.
constexpr std::array kParts{1, 2, 3, 4};
constexpr double kLeastDepth = 4 * kDepth;
/// The library's own choice is kept unless another takes this share of its time or less: so far off are predictions.
constexpr double kWorthwhile = 1 / 1.03;

/// Tiles of mc2's own kernel for several experts.
constexpr std::array<KnownTile, 2> kGroupedTiles{{{128, 128, 1}, {128, 256, 1}}};
constexpr double kGroupedTileRows = 128;
constexpr std::int64_t kGroupedStep = 8; ///< the kernel takes only multiples as n and k

/// Fitted by tests/bench/matmul_rates.py: for one matrix to data/gpu/library_matmuls_h200.csv and matmuls_h100.csv, for
/// several experts to data/gpu/grouped_matmuls_h200.csv. H100 and H200 differ in their memory's rate alone.
struct MeasuredGpu {
  std::string_view model; ///< how "gpu_model" starts
  double memory_us_per_byte;
  double grouped_memory_us_per_byte;
};
constexpr std::array kMeasuredGpus{MeasuredGpu{"NVIDIA H100 80GB HBM3", 3.55e-7, 3.65e-7},
                                   MeasuredGpu{"NVIDIA H200", 2.52e-07, 2.55e-7}};

/// Costs of a block beside a matmul whose rows choose experts: copying the rows of A by expert, and adding up a token's
/// products. The choices are sorted once a run. Fitted by matmul_rates.py to data/gpu/chosen_matmul_h200.csv.
constexpr double kGatherUsPerByte = 4.7e-7, kSumUsPerByte = 2.3e-7;

/// Joins a tile's two limits: near where they are equal, neither hides the other wholly.
double blended(double a, double b) { return std::sqrt(std::sqrt(a * a * a * a + b * b * b * b)); }

/// Joins the times of compute and memory likewise, with a sharper bend.
double longer_of(double a, double b) { return std::cbrt(std::sqrt(std::pow(a, 6) + std::pow(b, 6))); }

/// What is known of a tile; null if nothing is.
const KnownTile* known_tile(const MatmulTile& tile) {
  const auto is_it = [&](const KnownTile& one) { return one.rows == tile.rows && one.columns == tile.columns; };
  const auto found = std::ranges::find_if(kTiles, is_it);
  return found == kTiles.end() ? nullptr : &*found;
}

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
  GpuRates rates{.launch_us = 2.144,
                 .multiply_us = 2.258e-05,
                 .load_us = 0.0009395,
                 .element_us = 4.962e-05,
                 .wave_us = 1.223,
                 .memory_us_per_byte = device->memory_us_per_byte,
                 .cache_us_per_byte = 1.219e-07,
                 .cached_bytes = 2.551e+07,
                 .join_us = 1.72,
                 .join_us_per_byte = 6.957e-07,
                 .sm_count = sm_count};
  if (is_grouped) {
    const double memory = device->grouped_memory_us_per_byte; // whether in the cache or not
    rates = {.launch_us = 0.746,
             .multiply_us = 2.29e-5,
             .load_us = 1.47e-3,
             .element_us = 1.69e-4,
             .wave_us = 1.71,
             .memory_us_per_byte = memory,
             .cache_us_per_byte = memory,
             .cached_bytes = 1,
             .sm_count = sm_count,
             .is_grouped = true};
  }
  return rates;
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

std::optional<MatmulTile> named_tile(const Variant& variant) {
  const auto found = variant.fields.find(std::string(kTileSetting));
  if (found == variant.fields.end()) return std::nullopt;
  const std::string_view name = found->second;
  const MatmulTile tile{number_in(name.substr(std::min(name.find('x'), name.size() - 1) + 1)), number_in(name)};
  if (tile.rows < 1 || tile.columns < 1) return std::nullopt;
  return tile;
}

MatmulTimes::MatmulTimes(const GpuRates& rates, double n, double k, int sm_count)
    : rates_(rates), n_(n), k_(k), sm_count_(sm_count) {
  if (rates.is_grouped) {
    for (const KnownTile& tile : kGroupedTiles) add({tile.rows, tile.columns}, tile.slowness);
    return;
  }
  for (const int parts : kParts)
    for (const KnownTile& tile : kTiles)
      if (parts == 1 || k >= parts * kLeastDepth) add({tile.rows, tile.columns, parts}, tile.slowness);
}

MatmulTimes::MatmulTimes(const GpuRates& rates, double n, double k, int sm_count, const MatmulTile& tile)
    : rates_(rates), n_(n), k_(k), sm_count_(sm_count) {
  const KnownTile* const known = known_tile(tile);
  add(tile, known == nullptr ? 1 : known->slowness);
}

void MatmulTimes::add(const MatmulTile& tile, double slowness) {
  if (splits_.empty() || splits_.back().k_parts != tile.k_parts) splits_.push_back({tile.k_parts, {}});
  const double rows = tile.rows, columns = tile.columns;
  const double step_us = slowness * blended(rates_.multiply_us * rows * columns, rates_.load_us * (rows + columns));
  splits_.back().tiles.push_back({rows, std::ceil(n_ / columns),
                                  std::ceil(k_ / kDepth / tile.k_parts) * step_us + rates_.wave_us,
                                  rates_.element_us * rows * columns});
}

double MatmulTimes::move_us(double bytes) const {
  const double cached = std::clamp(2 - bytes / rates_.cached_bytes, 0.0, 1.0);
  return bytes * (cached * rates_.cache_us_per_byte + (1 - cached) * rates_.memory_us_per_byte);
}

template <typename RowTiles>
double MatmulTimes::us_of(const RowTiles& row_tiles, double rows, double matrices) const {
  const double moved_us = move_us(2 * (rows * k_ + matrices * k_ * n_ + rows * n_));
  double least_us = std::numeric_limits<double>::infinity(), least_count = 0;
  for (const Split& split : splits_) {
    const bool is_choice = &split != &splits_.front(); // k is split only where tiles are fewer than SMs
    if (is_choice && least_count > sm_count_) break;
    double compute_us = std::numeric_limits<double>::infinity();
    least_count = compute_us;
    for (const Tile& tile : split.tiles) {
      const double count = row_tiles(tile) * tile.side_by_side;
      least_count = std::min(least_count, count);
      if (is_choice && count > sm_count_) continue;
      compute_us = std::min(compute_us, std::ceil(count * split.k_parts / sm_count_) * tile.wave_us + tile.once_us);
    }
    const double joined_us =
        split.k_parts > 1 ? rates_.join_us + rates_.join_us_per_byte * 4 * rows * n_ * split.k_parts : 0;
    least_us = std::min(least_us, longer_of(compute_us, moved_us) + joined_us);
  }
  return rates_.launch_us + least_us;
}

double MatmulTimes::us(double rows, double batch) const {
  const double matrices = (1 + batch) / 2; // about half of B is in the cache still when the next product needs it
  return us_of([&](const Tile& tile) { return std::ceil(rows / tile.rows) * batch; }, rows * batch, matrices);
}

double MatmulTimes::us(const ExpertRows& experts) const {
  return us_of([&](const Tile& /*tile*/) { return experts.row_tiles; }, experts.rows, experts.experts);
}

namespace {

MatmulTimes times_of(const GpuRates& rates, const OpSpec& op, const Variant& variant) {
  const auto n = static_cast<double>(op.n), k = static_cast<double>(op.k);
  const int sm_count = matmul_sms(variant, rates.sm_count);
  const auto tile = named_tile(variant);
  return tile ? MatmulTimes(rates, n, k, sm_count, *tile) : MatmulTimes(rates, n, k, sm_count);
}

} // namespace

std::vector<MatmulTile> known_tiles() {
  std::vector<MatmulTile> tiles;
  for (const KnownTile& one : kTiles) tiles.push_back({one.rows, one.columns});
  return tiles;
}

std::size_t choose_tile(const Fingerprint& machine, const OpSpec& op, const MatmulCall& call,
                        std::span<const MatmulTile> offered) {
  const auto rates = gpu_rates(machine, op);
  if (!rates || rates->is_grouped || known_tile(offered.front()) == nullptr) return 0;
  const auto us_of = [&](const MatmulTile& tile) {
    const int sm_count = call.sm_count > 0 ? std::min(call.sm_count, rates->sm_count) : rates->sm_count;
    return MatmulTimes(*rates, static_cast<double>(op.n), static_cast<double>(op.k), sm_count, tile)
        .us(static_cast<double>(call.rows), call.batch_count);
  };
  std::size_t chosen = 0;
  double least_us = kWorthwhile * us_of(offered.front());
  for (std::size_t i = 1; i < offered.size(); ++i) {
    if (known_tile(offered[i]) == nullptr) continue;
    const double us = us_of(offered[i]);
    if (us < least_us) chosen = i, least_us = us;
  }
  return chosen;
}

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
