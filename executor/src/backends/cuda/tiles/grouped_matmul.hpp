#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/runtime/gemm.hpp"
#include "backends/cuda/tiles/grouped_kernel.hpp"

namespace mc2::executor::cuda {

/// Rows that one expert multiplies: of A or the exchange memory, into the exchange memory or C.
struct ExpertRun {
  int expert = 0;
  RowRun rows{};
};

/// What a GroupedMatmul multiplies: A of [a_rows, k] by one of as many B as there are experts, into C of [c_rows, n].
struct GroupedShape {
  bool is_half = false; ///< else bf16
  std::int64_t a_rows = 0, c_rows = 0;
  std::int64_t n = 0, k = 0; ///< multiples of 8
  std::int64_t expert_count = 1;
  bool b_is_transposed = false; ///< of [n, k] each, else of [k, n]
  int cta_count = 0;            ///< thread blocks, each an SM
};

/// A matmul of runs of rows, each by the B of its expert, as one kernel of our own: a Hopper GPU's.
class GroupedMatmul {
 public:
  GroupedMatmul(const GroupedShape& shape, std::span<const ExpertRun> runs);

  /// Other kernels will make the tiles, no more than for so many rows in so many runs.
  void reserve(std::int64_t row_count, std::int64_t run_count);
  /// Where they are made, once upload_tiles() has been called.
  [[nodiscard]] const GroupedRun& run() const noexcept { return run_; }
  [[nodiscard]] int tile_columns() const noexcept { return tile_columns_; }
  /// Matrices aligned to 16 bytes; bias [experts, n] or null, residual as C or null. Throws SystemError.
  void set_operands(const GemmOperands& operands);
  [[nodiscard]] const GemmOperands& operands() const noexcept { return operands_; }
  /// GroupedRun::chosen.
  void set_chosen(const ChosenRow* rows) noexcept { run_.chosen = rows; }
  /// Can be captured. Throws SystemError.
  void enqueue(cudaStream_t stream) const;

 private:
  friend std::unique_ptr<DeviceMemory> upload_tiles(std::span<GroupedMatmul* const> matmuls, DevicePool& pool);
  /// In memory of the device: how many tiles have been taken, 0 at first, and how many there are.
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

/// What enqueue() of these matmuls reads and writes on their device: all at once, once. Outlives their runs. Throws
/// SystemError.
[[nodiscard]] std::unique_ptr<DeviceMemory> upload_tiles(std::span<GroupedMatmul* const> matmuls, DevicePool& pool);

} // namespace mc2::executor::cuda
