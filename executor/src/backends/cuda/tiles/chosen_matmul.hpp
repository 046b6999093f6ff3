#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backends/cuda/runtime/device_pool.hpp"
#include "backends/cuda/runtime/handles.hpp"
#include "backends/cuda/tiles/chosen_kernels.hpp"
#include "backends/cuda/tiles/grouped_matmul.hpp"
#include "mc2/executor/buffer.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::cuda {

/// Multiplies tokens by the matrices of the experts that they choose, with kernels of our own for Hopper GPUs.
class ChosenMatmul {
 public:
  /// @param shape    a_rows, and c_rows if adds_up, are replaced by the number of gathered rows
  /// @param adds_up  each token's weighted products are added into one row of C; false: each product is a row of C
  /// @param operands the caller's matrices: A, B, bias and C
  ChosenMatmul(GroupedShape shape, const ChosenTokens& tokens, bool adds_up, const GemmOperands& operands);

  /// The matmul of the gathered rows; upload_tiles() gives it memory.
  [[nodiscard]] GroupedMatmul& grouped() noexcept { return grouped_; }
  /// The number of gathered rows: one for every choice of its tokens.
  [[nodiscard]] std::int64_t row_count() const noexcept { return std::int64_t{tokens_.token_count} * tokens_.top_k; }

  /// Bytes of scratch memory for so many rows. Matmuls that run one after the other share it.
  [[nodiscard]] static std::int64_t scratch_bytes(std::int64_t rows, std::int64_t n, std::int64_t k, bool adds_up);
  /// Must be called before anything is enqueued. Throws SystemError.
  /// @param memory  scratch_bytes() for at least row_count() rows
  void set_scratch(std::byte* memory);
  /// Replaces the operands. Throws SystemError.
  void set_operands(const GemmOperands& operands);
  [[nodiscard]] const GemmOperands& operands() const noexcept { return operands_; }
  /// Sets the weights, [m, top_k]; they are used if adds_up.
  void set_weights(const std::byte* weights) noexcept { weights_ = reinterpret_cast<const float*>(weights); }

  /// Enqueues the matmul; can be captured. A ChoiceSorter must have been enqueued before. Throws SystemError.
  void enqueue(cudaStream_t stream) const;

 private:
  friend class ChoiceSorter;
  [[nodiscard]] std::byte* products() const noexcept;

  GroupedShape shape_;
  ChosenTokens tokens_;
  bool adds_up_;
  GroupedMatmul grouped_;
  SortedChoices sorted_{};
  std::byte* scratch_ = nullptr; ///< gathered rows of A, then the products if they are added up
  GemmOperands operands_;
  const float* weights_ = nullptr;
};

/// Sorts choices by expert for all matmuls of a rank.
class ChoiceSorter {
 public:
  /// @param matmuls upload_tiles() has been called for them; they need not outlive *this
  /// @param pool    pool of the rank's device, outlives *this
  /// Throws SystemError.
  ChoiceSorter(std::span<ChosenMatmul* const> matmuls, int rank, const planner::ChosenExperts& experts,
               DevicePool& pool);

  /// Enqueues the sorting; can be captured. Throws SystemError.
  /// @param choices in memory of the device
  void enqueue(const ExpertChoices& choices, cudaStream_t stream) const;
  /// Throws SystemError naming rank, row, choice and value if a run has met an illegal choice. C is NaN there.
  void require_legal() const;
  /// Releases the memory without giving it back to the pool, because runs under way may still use it.
  void keep_memory() noexcept;

 private:
  int rank_;
  planner::ChosenExperts experts_;
  std::unique_ptr<MappedWord> fault_;
  std::unique_ptr<DeviceMemory> row_memory_, list_memory_;
  int list_count_ = 0;
};

/// Most bytes of device memory of a ChoiceSorter, and of its matmuls' tiles.
/// @param row_count rows of all matmuls together
[[nodiscard]] std::array<std::int64_t, 2> sorted_choice_bytes(std::int64_t row_count, std::int64_t matmul_count,
                                                              std::int64_t expert_count, std::int64_t n);

} // namespace mc2::executor::cuda
