#include "backends/cuda/transports/variants.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <string_view>

#include "backends/cuda/runtime/gemm.hpp"
#include "mc2/planner/collective.hpp"
#include "mc2/planner/text.hpp"
#include "variant_settings.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::Variant;

constexpr const char* kDirect = "direct";
constexpr const char* kPersistent = planner::kPersistentVariant.data();
constexpr const char* kLowLatency = "low_latency";
constexpr const char* kNccl = "nccl";
constexpr const char* kNcclWindow = "nccl_window";
constexpr const char* kNcclCopyEngine = "nccl_copy_engine";
constexpr const char* kCopyEngine = "copy_engine";
constexpr const char* kHierarchical = "hierarchical";
constexpr const char* kTileStore = planner::kTileStoreVariant.data();
constexpr const char* kCtas = "ctas";
constexpr const char* kGemmSms = planner::kMatmulSmsSetting.data();
constexpr const char* kTile = planner::kTileSetting.data();

int rank_slice_count(const planner::OpSpec& op) {
  const bool is_own_included = planner::traits_of(op.kind).first_lane == planner::Lane::Compute;
  return is_own_included ? op.world_size : op.world_size - 1;
}

/// The setting "1+2+4": a slice of one peer's rows, then of two, of four. Matmuls of few rows leave SMs idle, so later
/// slices are fewer and longer. Only for kinds with a local part, and for 4, 8, ... ranks: otherwise the peers of a
/// slice would not be adjacent in C.
std::optional<std::string> doubling_slices(const planner::OpSpec& op) {
  constexpr int kLeastRanks = 4;
  if (!planner::traits_of(op.kind).has_local_part || op.world_size < kLeastRanks ||
      !std::has_single_bit(static_cast<unsigned>(op.world_size)))
    return std::nullopt;
  std::string slices = "1";
  for (int peers = 2; peers < op.world_size; peers *= 2) slices += "+" + std::to_string(peers);
  return slices;
}

Variant make(const char* name, int ctas, int gemm_sms) {
  Variant variant{.name = name, .fields = {{kGemmSms, std::to_string(gemm_sms)}}};
  if (ctas > 0) variant.fields[kCtas] = std::to_string(ctas);
  return variant;
}

/// Thread blocks of our own kernels in runs without overlap.
int most_ctas(int sm_count) { return std::min(32, sm_count); }

bool is_all_reduce(const planner::OpSpec& op) {
  return planner::collective_of(op.kind) == planner::Collective::AllReduce;
}

bool has_copies(const planner::OpSpec& op) { return !is_all_reduce(op); }

bool has_persistent(const planner::OpSpec& op) { return planner::sums_over_ranks(op.kind); }

bool has_tiles(const planner::OpSpec& op) {
  return has_persistent(op) && planner::cut_axis(op) == planner::CutAxis::Rows &&
         planner::traits_of(op.kind).work == planner::Work::Matmul;
}

/// The tiles of tile_store, by cuBLASLt's names, in which rows are our columns.
constexpr const char* kWide = "256x128";
constexpr const char* kNarrow = "128x128";

/// Checks that tile_store can run: its instructions exist on Hopper only. Errors: Unsupported.
Result<void> check_tiles(const planner::OpSpec& op, const GpuTraits& gpu) {
  if (gpu.compute_capability == kHopper) return check_tile_shape(op);
  return Error{ErrorCode::Unsupported, "variant",
               "tile_store is for devices of compute capability 9.0, and these have " +
                   capability_text(gpu.compute_capability) + "; choose another variant"};
}

/// Whether NCCL has one call for the collective, so that its kernels for symmetric windows can carry it.
bool has_windows(const planner::OpSpec& op) { return planner::collective_of(op.kind) != planner::Collective::AllToAll; }

/// Whether NCCL's copy engines can carry the collective: they gather and exchange dense pieces.
bool has_nccl_copies(const planner::OpSpec& op) {
  const planner::OpTraits& traits = planner::traits_of(op.kind);
  return !traits.sums() && !traits.lands_side_by_side;
}

/// Whether "hierarchical" carries the operator: it needs dense pieces of equal size that consist of rows.
bool has_hierarchy(const planner::OpSpec& op) {
  const planner::OpTraits& traits = planner::traits_of(op.kind);
  return traits.work == planner::Work::Matmul && !op.experts && planner::cut_axis(op) == planner::CutAxis::Rows &&
         planner::collective_of(op.kind) != planner::Collective::AllToAll;
}

Variant with_slices(Variant variant, const std::string& slices) {
  variant.fields[std::string(planner::kSlicesSetting)] = slices;
  return variant;
}

/// Copies that are handed over rank by rank: a slice per rank if the matmul comes first, the own one included; else one
/// per peer. If the matmul comes first there are no other copies.
Variant make_sliced(const planner::OpSpec& op, int gemm_sms, const char* name = kCopyEngine) {
  return with_slices(make(name, 0, gemm_sms), std::to_string(rank_slice_count(op)));
}

/// A name, and what a variant of this name is before its settings are read.
struct NamedTransport {
  const char* name;
  bool (*carries)(const planner::OpSpec&);
  CudaVariant variant;
};

using By = CudaVariant::Transport;
constexpr std::array kTransports{
    NamedTransport{kDirect, [](const planner::OpSpec&) { return true; }, {.transport = By::Direct}},
    NamedTransport{kNccl, [](const planner::OpSpec&) { return true; }, {.transport = By::Nccl}},
    NamedTransport{kLowLatency, is_all_reduce, {.transport = By::Direct, .is_low_latency = true}},
    NamedTransport{kPersistent, has_persistent, {.transport = By::Persistent}},
    NamedTransport{kCopyEngine, has_copies, {.transport = By::CopyEngine}},
    NamedTransport{kTileStore, has_tiles, {.transport = By::CopyEngine, .stores_tiles = true}},
    NamedTransport{kNcclWindow, has_windows, {.transport = By::Nccl, .has_windows = true}},
    NamedTransport{kNcclCopyEngine, has_nccl_copies, {.transport = By::Nccl, .has_windows = true, .takes_no_sm = true}},
    NamedTransport{kHierarchical, has_hierarchy, {.transport = By::Hierarchical}},
};

/// What a variant of this name is. Errors: UnknownName, also for an operator that it does not carry.
Result<CudaVariant> read_name(const planner::OpSpec& op, const std::string& name) {
  std::vector<const char*> legal;
  for (const NamedTransport& row : kTransports) {
    if (!row.carries(op)) continue;
    if (row.name == name) return row.variant;
    legal.push_back(row.name);
  }
  return Error{ErrorCode::UnknownName, "variant",
               "the cuda backend has no variant \"" + name + "\" for " + std::string(to_string(op.kind)) +
                   "; it has: " + list_text(legal)};
}

bool takes_ctas(const planner::OpSpec& op, const CudaVariant& variant) {
  if (variant.transport == By::Hierarchical) return has_persistent(op); // it gathers by copies
  return variant.transport != By::CopyEngine && !variant.takes_no_sm;
}

Result<CudaVariant::Slicing> read_slicing(const planner::OpSpec& op, const Variant& variant) {
  using Slicing = CudaVariant::Slicing;
  const bool is_compute_first = planner::traits_of(op.kind).first_lane == planner::Lane::Compute;
  const std::string by_rank = std::to_string(rank_slice_count(op));
  const std::optional<std::string> doubling = doubling_slices(op);
  const auto given = variant.fields.find(std::string(planner::kSlicesSetting));
  if (given == variant.fields.end() && !is_compute_first) return Slicing::Whole;
  if (given != variant.fields.end() && given->second == by_rank) return Slicing::ByRank;
  if (given != variant.fields.end() && given->second == doubling) return Slicing::Doubling;
  return Error{ErrorCode::InvalidSpec, "variant",
               "\"" + variant.name + "\" hands blocks of " + std::string(to_string(op.kind)) +
                   " over rank by rank: it " + (is_compute_first ? "needs" : "takes no setting slices, or") +
                   " slices=" + by_rank + (doubling ? " or slices=" + *doubling : "")};
}

std::vector<std::string_view> legal_settings(const planner::OpSpec& op, const CudaVariant& variant) {
  std::vector<std::string_view> settings{kGemmSms};
  if (planner::traits_of(op.kind).work == planner::Work::Matmul) settings.push_back(kTile);
  if (takes_ctas(op, variant)) settings.push_back(kCtas);
  if (variant.transport == By::CopyEngine && has_copies(op)) settings.push_back(planner::kSlicesSetting);
  return settings;
}

Variant with_tile(Variant variant, const char* tile) {
  variant.fields[kTile] = tile;
  return variant;
}

/// Adds variants with tiles other than the matmul library's first choice, which is not always the fastest
/// (docs/gpu_lab_notes.md). They belong to the variant that wins most comparisons, and to the variant that is mostly
/// the fastest without overlap, so that serial has its best matmul, too.
void add_tiles(const planner::OpSpec& op, int sm_count, std::vector<Variant>& variants) {
  if (planner::traits_of(op.kind).work != planner::Work::Matmul || op.experts_per_rank > 1) return;
  const Variant fused = variants.front();
  const Variant serial =
      has_persistent(op) ? make(kPersistent, 4, sm_count - 4) : make(kDirect, most_ctas(sm_count), sm_count);
  for (const char* tile : {"128x128", "128x160", "96x128"}) variants.push_back(with_tile(fused, tile));
  for (const char* tile : {"128x128", "128x160"}) variants.push_back(with_tile(serial, tile));
}

/// Adds copies by copy engines, which take no SM and are nearly as fast as kernels.
void add_copies(const planner::OpSpec& op, int sm_count, std::vector<Variant>& variants) {
  if (!has_copies(op)) return;
  const bool is_compute_first = planner::traits_of(op.kind).first_lane == planner::Lane::Compute;
  if (is_compute_first || rank_slice_count(op) > 1) variants.push_back(make_sliced(op, sm_count));
  if (const auto slices = doubling_slices(op)) variants.push_back(with_slices(make(kCopyEngine, 0, sm_count), *slices));
  if (!is_compute_first) variants.push_back(make(kCopyEngine, 0, sm_count));
}

/// Adds variants for ranks on several hosts. Only NCCL reaches all ranks there, so several numbers of its thread blocks
/// are proposed.
void add_between_hosts(const planner::OpSpec& op, int sm_count, std::vector<Variant>& variants) {
  for (const int ctas : {4, 8, 16}) variants.push_back(make(kNccl, ctas, sm_count - ctas));
  if (!has_hierarchy(op)) return;
  if (!has_persistent(op)) return variants.push_back(make(kHierarchical, 0, sm_count));
  for (const int ctas : {8, 16}) variants.push_back(make(kHierarchical, ctas, sm_count - ctas));
}

Variant make_tile_store(const planner::OpSpec& op, int sm_count) {
  return has_copies(op) ? make_sliced(op, sm_count, kTileStore) : make(kTileStore, 0, sm_count);
}

/// The width of tile_store's tiles. Errors: InvalidSpec.
Result<int> read_tile_columns(const Variant& variant) {
  const auto named = variant.fields.find(kTile);
  if (named == variant.fields.end() || named->second == kWide) return kWideTile;
  if (named->second == kNarrow) return kNarrowTile;
  return Error{ErrorCode::InvalidSpec, "variant",
               "tile_store has no tile \"" + named->second.substr(0, 64) + "\"; legal: " + kWide + ", " + kNarrow};
}

} // namespace

std::vector<Variant> cuda_variants(const planner::OpSpec& op, const GpuTraits& gpu, bool crosses_hosts) {
  const int sm_count = gpu.sm_count;
  std::vector<Variant> variants;
  add_copies(op, sm_count, variants);
  // A few thread blocks fill the links. How many SMs the matmul can spare depends on where its waves end.
  if (has_persistent(op)) {
    for (const int ctas : {8, 4, 12}) variants.push_back(make(kPersistent, ctas, sm_count - ctas));
    variants.push_back(make(kDirect, 8, sm_count - 8));
  } else {
    for (const int ctas : {8, 4, 16}) variants.push_back(make(kDirect, ctas, sm_count - ctas));
  }
  // For runs without overlap: the collective and the matmul take all SMs they can use.
  variants.push_back(make(kDirect, most_ctas(sm_count), sm_count));
  if (is_all_reduce(op)) variants.push_back(make(kLowLatency, most_ctas(sm_count), sm_count));
  variants.push_back(make(kNccl, 0, sm_count));
  if (crosses_hosts) add_between_hosts(op, sm_count, variants);
  add_tiles(op, sm_count, variants);
  if (has_tiles(op) && check_tiles(op, gpu) && op.n >= kNarrowTile) { // for less, tiles are mostly padding
    const Variant wide = make_tile_store(op, sm_count);
    variants.push_back(wide);
    variants.push_back(with_tile(wide, kNarrow));
  }
  // nccl_window and nccl_copy_engine are legal but not proposed: they were nowhere faster (docs/gpu_lab_notes.md).
  return variants;
}

Result<CudaVariant> read_variant(const planner::OpSpec& op, const Variant& variant, const GpuTraits& gpu) {
  const int sm_count = gpu.sm_count;
  MC2_ASSIGN(CudaVariant read, read_name(op, variant.name));
  MC2_TRY(check_settings(variant, legal_settings(op, read)));
  if (read.stores_tiles) MC2_TRY(check_tiles(op, gpu));
  MC2_ASSIGN(read.gemm_sm_count, whole_setting(variant, kGemmSms, 1, sm_count, sm_count));
  if (read.stores_tiles) {
    MC2_ASSIGN(read.tile_columns, read_tile_columns(variant));
  } else if (const auto named = variant.fields.find(kTile); named != variant.fields.end()) {
    MC2_ASSIGN(read.gemm_tile, read_tile(named->second));
  }
  if (read.transport == By::CopyEngine && has_copies(op)) {
    MC2_ASSIGN(read.slicing, read_slicing(op, variant));
  }
  if (!takes_ctas(op, read)) return read;
  if (read.transport == By::Nccl) {
    const std::optional<int> nccls_choice = read.has_windows ? std::nullopt : std::optional(0);
    MC2_ASSIGN(read.cta_count, whole_setting(variant, kCtas, 1, 64, nccls_choice));
    return read;
  }
  // The persistent kernel holds its SMs until all matmuls have ended, and these need SMs, too: two clusters of two.
  const int most_ctas = read.transport == By::Persistent ? std::max(1, sm_count - 4) : sm_count;
  MC2_ASSIGN(read.cta_count, whole_setting(variant, kCtas, 1, std::min(kMaxDirectCtas, most_ctas)));
  return read;
}

} // namespace mc2::executor::cuda
