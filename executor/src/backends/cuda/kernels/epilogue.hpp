#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {

/// The epilogue on dense rows of C that are whole: C += bias + residual, and the normalised rows are written to
/// `normed`. A null operand is left out.
struct RowEpilogue {
  std::byte* c = nullptr;
  const std::byte* bias = nullptr;        ///< [columns]
  const std::byte* residual = nullptr;    ///< shape of c
  const std::byte* norm_weight = nullptr; ///< [columns]
  std::byte* normed = nullptr;            ///< shape of c; written; null without a norm
  float norm_epsilon = 0;
  std::int64_t row_count = 0;
  std::int64_t columns = 0;
  planner::DType dtype = planner::DType::Bf16;
};

/// Enqueues one pass over the rows by at most eight thread blocks per SM; can be captured. Additions and squares are in
/// f32. C and the normalised rows are rounded once each, and the squares are those of the rounded C. Uses 16-byte
/// accesses if addresses and columns allow them, else single elements. Throws SystemError.
void enqueue_epilogue(const RowEpilogue& epilogue, int sm_count, cudaStream_t stream);

} // namespace mc2::executor::cuda
