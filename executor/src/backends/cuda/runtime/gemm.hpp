#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/cuda/runtime/device_pool.hpp"
#include "backends/cuda/runtime/handles.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {

/// Of a GemmContext: cuBLAS recommends 32 MiB on Hopper.
inline constexpr std::size_t kGemmScratchBytes = std::size_t{32} << 20U;

/// C_i = A_i B for i < batch_count, row-major; A_i is [rows, k] and follows A_(i-1) by a_stride elements, C_i likewise.
/// B is [k, n], or [n, k] where it is stored transposed, as f8e4m3 must be. C is of planner::product_type().
struct GemmShape {
  planner::DType dtype = planner::DType::Bf16;
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  int batch_count = 1;
  std::int64_t a_stride = 0;
  std::int64_t c_stride = 0;
  bool b_is_transposed = false;
  std::int64_t b_pitch = 0; ///< elements from a row of [k, n] to the next, where B is part of a wider matrix; 0: n
  int sm_count = 0;         ///< SMs that the matmul may count on; 0 for all
  /// The library's first algorithm with this tile, by its cublasLtMatmulTile_t; where it has none, its first of all. 0:
  /// its first but for tiles that are known to be slow.
  int tile = 0;
};

/// The library's number of a tile of its product by name, e.g. "128x256"; its rows are columns of ours. Errors:
/// InvalidSpec, listing the legal names.
[[nodiscard]] Result<int> read_tile(std::string_view name);
/// Those that read_tile() takes.
[[nodiscard]] std::vector<std::string_view> tile_names();

struct GemmOperands {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::byte* c = nullptr;
  const std::byte* bias = nullptr;     ///< [n], added to every row of C; null without
  const std::byte* residual = nullptr; ///< as C, added to it; null without
  const std::byte* a_scale = nullptr;  ///< f8e4m3: one f32 each, on the device, read by every run
  const std::byte* b_scale = nullptr;
};

/// The largest power of two that divides the address, at most 256: what an algorithm was chosen for.
[[nodiscard]] std::uint32_t alignment_of(const void* address) noexcept;

/// What the matmuls of one rank share. One stream at a time uses the scratch memory.
struct GemmContext {
  BlasLibrary library;
  DeviceMemory scratch;

  explicit GemmContext(DevicePool& pool);
};

/// One matmul through cuBLASLt, bound to its operands: products of short types accumulate in f32; f32 stays f32.
class Gemm {
 public:
  /// Picks one of the library's algorithms for this shape, these alignments, this number of SMs and this tile.
  /// `context` must outlive *this. Throws SystemError, also when the library has no algorithm.
  Gemm(GemmContext& context, const GemmShape& shape, const GemmOperands& operands);

  /// Replaces all but the scales by others that are aligned as well; what is null stays null. Throws SystemError.
  void set_operands(const GemmOperands& operands);
  [[nodiscard]] const GemmOperands& operands() const noexcept { return operands_; }
  /// Its cublasLtMatmulTile_t.
  [[nodiscard]] int tile() const;
  /// Enqueues on `stream` and returns; can be captured.
  void enqueue(cudaStream_t stream) const;

 private:
  void choose_algorithm(int tile);

  GemmContext* context_;
  GemmOperands operands_;
  MatmulDescriptor descriptor_;
  MatrixLayout a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
};

} // namespace mc2::executor::cuda
