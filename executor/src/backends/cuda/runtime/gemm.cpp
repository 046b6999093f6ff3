#include "backends/cuda/runtime/gemm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/runtime/cublas_lt.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::executor::cuda {
namespace {

cudaDataType_t data_type(planner::DType dtype) {
  switch (dtype) {
    case planner::DType::F32: return CUDA_R_32F;
    case planner::DType::F16: return CUDA_R_16F;
    case planner::DType::Bf16: return CUDA_R_16BF;
    case planner::DType::F8E4m3: return CUDA_R_8F_E4M3;
    case planner::DType::I8: break; // refused
  }
  return CUDA_R_32F;
}

BlasLibrary open_library(int device) {
  MC2_CUDA(cudaSetDevice(device));
  cublasLtHandle_t library = nullptr;
  check(cublasLtCreate(&library), "cublasLtCreate", device);
  return BlasLibrary(library);
}

template <typename Value>
void set(const MatmulDescriptor& descriptor, cublasLtMatmulDescAttributes_t attribute, Value value) {
  MC2_CUDA(cublasLtMatmulDescSetAttribute(descriptor.get(), attribute, &value, sizeof value));
}

template <typename Value>
void set(const MatrixLayout& layout, cublasLtMatrixLayoutAttribute_t attribute, Value value) {
  MC2_CUDA(cublasLtMatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof value));
}

template <typename Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  MC2_CUDA(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
}

/// A row-major [rows, columns] matrix is a column-major [columns, rows] one.
MatrixLayout layout_of(planner::DType dtype, std::int64_t rows, std::int64_t columns, int batch_count,
                       std::int64_t stride, std::int64_t pitch = 0) {
  cublasLtMatrixLayout_t layout = nullptr;
  MC2_CUDA(cublasLtMatrixLayoutCreate(&layout, data_type(dtype), static_cast<std::uint64_t>(columns),
                                      static_cast<std::uint64_t>(rows), pitch > 0 ? pitch : columns));
  MatrixLayout owned(layout);
  set(owned, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch_count));
  set(owned, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  return owned;
}

class Preference {
 public:
  Preference() { MC2_CUDA(cublasLtMatmulPreferenceCreate(&handle_)); }
  ~Preference() { (void)cublasLtMatmulPreferenceDestroy(handle_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  [[nodiscard]] cublasLtMatmulPreference_t get() const noexcept { return handle_; }

 private:
  cublasLtMatmulPreference_t handle_ = nullptr;
};

template <typename Value>
Value get(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  Value value{};
  MC2_CUDA(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, nullptr));
  return value;
}

int tile_of(const cublasLtMatmulAlgo_t& algorithm) {
  return static_cast<int>(get<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID));
}

/// A tile of the library: first our columns, which are its rows.
struct LibraryTile {
  const char* name;
  cublasLtMatmulTile_t tile;
  int columns, rows;
};
#define MC2_TILE(columns, rows) \
  LibraryTile { #columns "x" #rows, CUBLASLT_MATMUL_TILE_##columns##x##rows, columns, rows }

/// The tiles whose times the planner knows (docs/cost_model.md §12). A variant may name the first kNamed, which were
/// the fastest for some of the matmuls in docs/gpu_lab_notes.md.
constexpr std::size_t kNamed = 13;
constexpr std::array kTiles{
    MC2_TILE(64, 128),  MC2_TILE(64, 256),  MC2_TILE(96, 128),  MC2_TILE(128, 64),  MC2_TILE(128, 128),
    MC2_TILE(128, 160), MC2_TILE(128, 192), MC2_TILE(128, 256), MC2_TILE(192, 128), MC2_TILE(256, 64),
    MC2_TILE(256, 128), MC2_TILE(320, 64),  MC2_TILE(320, 128), MC2_TILE(32, 64),   MC2_TILE(64, 16),
    MC2_TILE(64, 32),   MC2_TILE(64, 48),   MC2_TILE(64, 64),   MC2_TILE(64, 192),  MC2_TILE(96, 64),
    MC2_TILE(128, 16),  MC2_TILE(128, 48),  MC2_TILE(128, 80),  MC2_TILE(192, 16),  MC2_TILE(192, 64),
    MC2_TILE(192, 192), MC2_TILE(256, 16),  MC2_TILE(256, 48),  MC2_TILE(256, 96),  MC2_TILE(384, 64)};
#undef MC2_TILE
constexpr std::span kNamedTiles(kTiles.data(), kNamed);
/// Tiles that the library chooses for some matmuls of few rows, although its next choice is mostly 1.3 to 2 times as
/// fast (docs/cost_model.md §12).
constexpr std::array kSlowTiles{CUBLASLT_MATMUL_TILE_448x64, CUBLASLT_MATMUL_TILE_512x64, CUBLASLT_MATMUL_TILE_64x512};

bool is_slow(int tile) {
  return std::ranges::any_of(kSlowTiles, [tile](cublasLtMatmulTile_t slow) { return static_cast<int>(slow) == tile; });
}

planner::MatmulTile described(const cublasLtMatmulAlgo_t& algorithm) {
  planner::MatmulTile result{.k_parts = std::max(1, get<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM))};
  const int has = tile_of(algorithm);
  const auto known =
      std::ranges::find_if(kTiles, [has](const LibraryTile& one) { return static_cast<int>(one.tile) == has; });
  if (known == kTiles.end()) return result;
  result.rows = known->rows;
  result.columns = known->columns;
  return result;
}

} // namespace

std::vector<planner::MatmulTile> described_tiles() {
  std::vector<planner::MatmulTile> tiles;
  for (const LibraryTile& one : kTiles) tiles.push_back({one.rows, one.columns});
  return tiles;
}

Result<int> read_tile(std::string_view name) {
  const auto known = std::ranges::find(kNamedTiles, name, &LibraryTile::name);
  if (known != kNamedTiles.end()) return static_cast<int>(known->tile);
  return Error{ErrorCode::InvalidSpec, "variant",
               "there is no tile \"" + std::string(name.substr(0, 64)) +
                   "\"; legal: " + list_text(kNamedTiles, &LibraryTile::name)};
}

std::uint32_t alignment_of(const void* address) noexcept {
  constexpr int kMostBits = 8;
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return 1U << static_cast<unsigned>(value == 0 ? kMostBits : std::min(kMostBits, std::countr_zero(value)));
}

GemmContext::GemmContext(DevicePool& pool) : library(open_library(pool.device())), scratch(pool, kGemmScratchBytes) {}

Gemm::Gemm(GemmContext& context, const GemmShape& shape, const GemmOperands& operands, const AlgorithmChoice& choose)
    : context_(&context),
      operands_(operands),
      a_(layout_of(shape.dtype, shape.rows, shape.k, shape.batch_count, shape.a_stride)),
      b_(shape.b_is_transposed ? layout_of(shape.dtype, shape.n, shape.k, shape.batch_count, 0)
                               : layout_of(shape.dtype, shape.k, shape.n, shape.batch_count, 0, shape.b_pitch)),
      c_(layout_of(planner::product_type(shape.dtype), shape.rows, shape.n, shape.batch_count, shape.c_stride)) {
  cublasLtMatmulDesc_t descriptor = nullptr;
  MC2_CUDA(cublasLtMatmulDescCreate(&descriptor, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  descriptor_ = MatmulDescriptor(descriptor);
  // Row-major A B is column-major B' A': the library's A is our B.
  if (shape.b_is_transposed) set(descriptor_, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(descriptor_, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, static_cast<std::int32_t>(shape.sm_count));
  if (operands.bias != nullptr) {
    set(descriptor_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(descriptor_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  }
  if (operands.b_scale != nullptr) set(descriptor_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.b_scale);
  if (operands.a_scale != nullptr) set(descriptor_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.a_scale);
  choose_algorithm(shape.tile, choose);
}

void Gemm::choose_algorithm(int tile, const AlgorithmChoice& choose) {
  const Preference preference;
  set(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kGemmScratchBytes));
  set(preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(operands_.b));
  set(preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(operands_.a));
  const std::byte* const added_to = operands_.residual == nullptr ? operands_.c : operands_.residual;
  set(preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(added_to));
  set(preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(operands_.c));
  // The other schemes add parts of k in the type of the result and so round it several times.
  set(preference.get(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  constexpr int kMostCandidates = 16;
  std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> candidates{};
  int found = 0;
  MC2_CUDA(cublasLtMatmulAlgoGetHeuristic(context_->library.get(), descriptor_.get(), b_.get(), a_.get(), c_.get(),
                                          c_.get(), preference.get(), kMostCandidates, candidates.data(), &found));
  if (found == 0) check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  const std::span all(candidates.data(), static_cast<std::size_t>(found));
  if (tile != 0) {
    const auto of_tile = std::ranges::find_if(all, [tile](const auto& one) { return tile_of(one.algo) == tile; });
    algorithm_ = (of_tile == all.end() ? all.front() : *of_tile).algo;
    return;
  }
  const auto slow = std::ranges::stable_partition(all, [](const auto& one) { return !is_slow(tile_of(one.algo)); });
  std::vector<planner::MatmulTile> offered;
  for (const auto& one : all.first(all.size() - slow.size())) offered.push_back(described(one.algo));
  algorithm_ = all[choose && !offered.empty() ? choose(offered) : 0].algo;
}

void Gemm::set_operands(const GemmOperands& operands) {
  if (operands.bias != operands_.bias) set(descriptor_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  operands_ = operands;
}

void Gemm::enqueue(cudaStream_t stream) const {
  const float one = 1;
  const float added = operands_.residual == nullptr ? 0 : 1; // factor of the library's C; the library's D is our C
  const std::byte* const added_to = operands_.residual == nullptr ? operands_.c : operands_.residual;
  MC2_CUDA(cublasLtMatmul(context_->library.get(), descriptor_.get(), &one, operands_.b, b_.get(), operands_.a,
                          a_.get(), &added, added_to, c_.get(), operands_.c, c_.get(), &algorithm_,
                          context_->scratch.bytes().data(), kGemmScratchBytes, stream));
}

} // namespace mc2::executor::cuda
