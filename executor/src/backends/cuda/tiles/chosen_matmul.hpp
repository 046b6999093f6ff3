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

/// Tokens times the matrices of the experts that they choose, by kernels of our own: a Hopper GPU's.
class ChosenMatmul {
 public:
  /// @param shape   its rows of A are found out, those of C are those of the products' matrix: only where they are not
  ///                added up
  /// @param adds_up each token's products into one row, else the products have the rows of C
  /// @param operands the caller's matrices: A, B, bias, and C, or where the sums go
  ChosenMatmul(GroupedShape shape, const ChosenTokens& tokens, bool adds_up, const GemmOperands& operands);

  /// What is multiplied in the end; upload_tiles() gives it memory.
  [[nodiscard]] GroupedMatmul& grouped() noexcept { return grouped_; }
  /// Rows for every choice of its tokens.
  [[nodiscard]] std::int64_t row_count() const noexcept { return std::int64_t{tokens_.token_count} * tokens_.top_k; }

  /// Bytes of a scratch memory for so many rows, which matmuls that follow one another share.
  [[nodiscard]] static std::int64_t scratch_bytes(std::int64_t rows, std::int64_t n, std::int64_t k, bool adds_up);
  /// Before anything is enqueued. @param memory  scratch_bytes() of no fewer rows than its own. Throws SystemError.
  void set_scratch(std::byte* memory);
  /// Other ones. Throws SystemError.
  void set_operands(const GemmOperands& operands);
  [[nodiscard]] const GemmOperands& operands() const noexcept { return operands_; }
  /// [m, top_k], where it adds up.
  void set_weights(const std::byte* weights) noexcept { weights_ = reinterpret_cast<const float*>(weights); }

  /// Can be captured; a ChoiceSorter has been before. Throws SystemError.
  void enqueue(cudaStream_t stream) const;

 private:
  friend class ChoiceSorter;
  [[nodiscard]] std::byte* products() const noexcept;

  GroupedShape shape_;
  ChosenTokens tokens_;
  bool adds_up_;
  GroupedMatmul grouped_;
  SortedChoices sorted_{};
  std::byte* scratch_ = nullptr; ///< the gathered rows of A, then the products that are added up
  GemmOperands operands_;
  const float* weights_ = nullptr;
};

/// Sorts choices by expert for the matmuls of a rank.
class ChoiceSorter {
 public:
  /// @param matmuls after upload_tiles(); outlive their runs only. @param pool of the rank's device, outlives *this.
  /// Throws SystemError.
  ChoiceSorter(std::span<ChosenMatmul* const> matmuls, int rank, const planner::ChosenExperts& experts,
               DevicePool& pool);

  /// Can be captured. @param choices in memory of the device. Throws SystemError.
  void enqueue(const ExpertChoices& choices, cudaStream_t stream) const;
  /// Throws SystemError naming rank, row, choice and value where a run has met an illegal choice; C has NaN there.
  void require_legal() const;
  /// From all plans to come, as runs under way may use it.
  void keep_memory() noexcept;

 private:
  int rank_;
  planner::ChosenExperts experts_;
  std::unique_ptr<MappedWord> fault_;
  std::unique_ptr<DeviceMemory> row_memory_, list_memory_;
  int list_count_ = 0;
};

/// Device memory of a ChoiceSorter and its matmuls' tiles, at most. @param row_count of all matmuls
[[nodiscard]] std::array<std::int64_t, 2> sorted_choice_bytes(std::int64_t row_count, std::int64_t matmul_count,
                                                              std::int64_t expert_count, std::int64_t n);

} // namespace mc2::executor::cuda
