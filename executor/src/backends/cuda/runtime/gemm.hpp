#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/cuda/runtime/device_pool.hpp"
#include "backends/cuda/runtime/handles.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/matmul_tile.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {

/// Scratch memory of a GemmContext, in bytes; cuBLAS recommends 32 MiB on Hopper.
inline constexpr std::size_t kGemmScratchBytes = std::size_t{32} << 20U;

/// C_i = A_i B for i < batch_count, row-major. A_i is [rows, k] and starts a_stride elements after A_(i-1); C_i is
/// [rows, n] and starts c_stride elements after C_(i-1). B is [k, n], or [n, k] if it is stored transposed, as f8e4m3
/// must be. The type of C is planner::product_type().
struct GemmShape {
  planner::DType dtype = planner::DType::Bf16;
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  int batch_count = 1;
  std::int64_t a_stride = 0;
  std::int64_t c_stride = 0;
  bool b_is_transposed = false;
  std::int64_t b_pitch = 0; ///< elements between rows of a [k, n] that is part of a wider matrix; 0: n
  int sm_count = 0;         ///< SMs that the matmul may count on; 0: all
  /// The tile as a cublasLtMatmulTile_t: selects the library's first algorithm with this tile, or its first of all if
  /// none has it. 0: an AlgorithmChoice selects.
  int tile = 0;
};

/// Chooses among the algorithms that the library offers: its own choice comes first, and none has a tile that is known
/// to be slow. Returns an index.
using AlgorithmChoice = std::function<std::size_t(std::span<const planner::MatmulTile>)>;

/// The tiles, of one part each, that an AlgorithmChoice gets to know; others have no rows. They must be
/// planner::known_tiles().
[[nodiscard]] std::vector<planner::MatmulTile> described_tiles();

/// The library's number of a tile, by name, e.g. "128x256". The tile is one of the library's product; its rows are our
/// columns. Errors: InvalidSpec, listing the legal names.
[[nodiscard]] Result<int> read_tile(std::string_view name);

struct GemmOperands {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::byte* c = nullptr;
  const std::byte* bias = nullptr;     ///< [n], added to every row of C; null: no bias
  const std::byte* residual = nullptr; ///< shape of C, added to it; null: no residual
  const std::byte* a_scale = nullptr;  ///< f8e4m3: one f32 for A and one for B, on the device, read by every run
  const std::byte* b_scale = nullptr;
};

/// The largest power of two, at most 256, that divides the address. An algorithm is chosen for such alignments.
[[nodiscard]] std::uint32_t alignment_of(const void* address) noexcept;

/// The library handle and scratch memory that matmuls of one rank share. Only one stream at a time may use the scratch
/// memory.
struct GemmContext {
  BlasLibrary library;
  DeviceMemory scratch;

  explicit GemmContext(DevicePool& pool);
};

/// One matmul through cuBLASLt, bound to its operands. Products of short types accumulate in f32; f32 stays f32.
class Gemm {
 public:
  /// Picks one of the library's algorithms for this shape, these alignments, this number of SMs and this tile.
  /// `context` must outlive *this. Throws SystemError, also if the library has no algorithm.
  /// @param choose  if empty, the first is taken
  Gemm(GemmContext& context, const GemmShape& shape, const GemmOperands& operands, const AlgorithmChoice& choose = {});

  /// Replaces all operands except the scales. The new ones must be aligned as well; null operands stay null. Throws
  /// SystemError.
  void set_operands(const GemmOperands& operands);
  [[nodiscard]] const GemmOperands& operands() const noexcept { return operands_; }
  /// Enqueues on `stream` and returns; can be captured.
  void enqueue(cudaStream_t stream) const;

 private:
  void choose_algorithm(int tile, const AlgorithmChoice& choose);

  GemmContext* context_;
  GemmOperands operands_;
  MatmulDescriptor descriptor_;
  MatrixLayout a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
};

} // namespace mc2::executor::cuda
