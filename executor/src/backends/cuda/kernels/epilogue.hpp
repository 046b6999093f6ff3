#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {

/// What is done to dense rows of C that are whole: C += bias + residual, and beside it the rows normalised. Null: not
/// done.
struct RowEpilogue {
  std::byte* c = nullptr;
  const std::byte* bias = nullptr;        ///< [columns]
  const std::byte* residual = nullptr;    ///< as c
  const std::byte* norm_weight = nullptr; ///< [columns]
  std::byte* normed = nullptr;            ///< as c, written; null without a norm
  float norm_epsilon = 0;
  std::int64_t row_count = 0;
  std::int64_t columns = 0;
  planner::DType dtype = planner::DType::Bf16;
};

/// Enqueues one pass over the rows by at most eight thread blocks an SM; can be captured. Additions and squares in f32;
/// C and what is normalised are rounded once each, and the squares are those of the rounded C. 16-byte accesses where
/// addresses and columns allow it, single elements otherwise. Throws SystemError.
void enqueue_epilogue(const RowEpilogue& epilogue, int sm_count, cudaStream_t stream);

} // namespace mc2::executor::cuda
