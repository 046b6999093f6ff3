#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/runtime/gemm.hpp"
#include "backends/cuda/tiles/grouped_kernel.hpp"

namespace mc2::executor::cuda {

/// Rows that one expert multiplies: from A or the exchange memory, into the exchange memory or C.
struct ExpertRun {
  int expert = 0;
  RowRun rows{};
};

/// The shape of a GroupedMatmul: A [a_rows, k] times one B per expert, into C [c_rows, n].
struct GroupedShape {
  bool is_half = false; ///< f16; false: bf16
  std::int64_t a_rows = 0, c_rows = 0;
  std::int64_t n = 0, k = 0; ///< multiples of 8
  std::int64_t expert_count = 1;
  bool b_is_transposed = false; ///< each B is [n, k]; false: [k, n]
  int cta_count = 0;            ///< thread blocks, each of which fills an SM
};

/// A matmul of runs of rows, each by the B of its expert, as one kernel of our own for Hopper GPUs.
class GroupedMatmul {
 public:
  GroupedMatmul(const GroupedShape& shape, std::span<const ExpertRun> runs);

  /// Makes room for tiles that other kernels will make: enough for `row_count` rows in `run_count` runs.
  void reserve(std::int64_t row_count, std::int64_t run_count);
  /// The run, which says where tiles are made once upload_tiles() has been called.
  [[nodiscard]] const GroupedRun& run() const noexcept { return run_; }
  [[nodiscard]] int tile_columns() const noexcept { return tile_columns_; }
  /// Sets the matrices, which are aligned to 16 bytes; bias is [experts, n] or null, residual has the shape of C or is
  /// null. Throws SystemError.
  void set_operands(const GemmOperands& operands);
  [[nodiscard]] const GemmOperands& operands() const noexcept { return operands_; }
  /// Sets GroupedRun::chosen.
  void set_chosen(const ChosenRow* rows) noexcept { run_.chosen = rows; }
  /// Enqueues the matmul; can be captured. Throws SystemError.
  void enqueue(cudaStream_t stream) const;

 private:
  friend std::unique_ptr<DeviceMemory> upload_tiles(std::span<GroupedMatmul* const> matmuls, DevicePool& pool);
  /// In memory of the device: number of tiles that have been taken, 0 at first, and of all tiles.
  struct Words {
    std::uint32_t taken;
    std::int32_t tile_count;
  };

  GroupedShape shape_;
  int tile_columns_;
  std::vector<GroupedTile> tiles_;
  GemmOperands operands_;
  GroupedKernel kernel_;
  GroupedRun run_{};
};

/// Makes the device memory that enqueue() of these matmuls reads and writes. Called once, for all matmuls together. The
/// memory must outlive their runs. Throws SystemError.
[[nodiscard]] std::unique_ptr<DeviceMemory> upload_tiles(std::span<GroupedMatmul* const> matmuls, DevicePool& pool);

} // namespace mc2::executor::cuda
