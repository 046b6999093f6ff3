#pragma once

#include <cub/block/block_reduce.cuh>

#include "backends/cuda/kernels/epilogue.hpp"
#include "backends/cuda/kernels/kernels.cuh"

// What is done to rows of C that are whole, for the kernels that do it.
namespace mc2::executor::cuda {

/// One row of the operands, in packs.
template <typename P>
struct Row {
  P* c;
  const P* bias;
  const P* residual;
  const P* norm_weight;
  P* normed;
};

template <typename P>
__device__ Row<P> row_of(const RowEpilogue& epilogue, std::int64_t index) {
  const std::int64_t first = index * (epilogue.columns / P::kElements);
  const auto at = [&](auto* bytes) { return bytes == nullptr ? nullptr : packs<P>(bytes) + first; };
  return {at(epilogue.c), packs<P>(epilogue.bias), at(epilogue.residual), packs<P>(epilogue.norm_weight),
          at(epilogue.normed)};
}

/// Rounds what `value`, the row's bias and `residual` sum up to, and puts it into C, which has `value` where there is
/// nothing to add if `is_in_c`; returns the sum of its squares.
template <typename P>
__device__ float add(const Row<P>& row, std::int64_t i, P& value, const P& residual, bool is_in_c) {
  float elements[P::kElements] = {};
  value.add_to(elements);
  if (row.bias != nullptr) row.bias[i].add_to(elements);
  if (row.residual != nullptr) residual.add_to(elements);
  if (!is_in_c || row.bias != nullptr || row.residual != nullptr) row.c[i] = value = P::rounded(elements);
  float rounded[P::kElements] = {}, squares = 0;
  value.add_to(rounded);
#pragma unroll
  for (int e = 0; e < P::kElements; ++e) squares += rounded[e] * rounded[e];
  return squares;
}

/// What a row is multiplied by, of all threads' squares; the same in all threads, which all call it.
template <int kThreadCount>
__device__ float norm_factor(float squares, const RowEpilogue& epilogue) {
  using Sum = cub::BlockReduce<float, kThreadCount>;
  __shared__ typename Sum::TempStorage scratch;
  __shared__ float shared;
  const float sum = Sum(scratch).Sum(squares); // thread 0 has it
  if (threadIdx.x == 0) shared = 1.0F / sqrtf(sum / static_cast<float>(epilogue.columns) + epilogue.norm_epsilon);
  __syncthreads();
  const float factor = shared;
  __syncthreads(); // before the next row's sum
  return factor;
}

template <typename P>
__device__ P normalised(const P& value, const P& weight, float factor) {
  float elements[P::kElements] = {}, weights[P::kElements] = {};
  value.add_to(elements);
  weight.add_to(weights);
#pragma unroll
  for (int e = 0; e < P::kElements; ++e) elements[e] = elements[e] * factor * weights[e];
  return P::rounded(elements);
}

} // namespace mc2::executor::cuda
