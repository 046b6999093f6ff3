#include "backends/cuda/kernels/epilogue.hpp"

#include <algorithm>
#include <cub/block/block_reduce.cuh>
#include <iterator>

#include "backends/cuda/kernels/kernels.cuh"
#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {
namespace {

constexpr int kBlocksPerSm = 2;
constexpr int kHeldPacks = 4; ///< of a row that a thread keeps in registers until the row's squares are known

/// One row of the operands, in packs.
template <typename P>
struct Row {
  P* c;
  const P* bias;
  const P* residual;
  const P* norm_weight;
  P* normed;
};

template <typename T, int kCount>
__device__ Pack<T, kCount> added(const Row<Pack<T, kCount>>& row, std::int64_t i) {
  using P = Pack<T, kCount>;
  P value = row.c[i];
  if (row.bias == nullptr && row.residual == nullptr) return value;
  float sum[kCount] = {};
  value.add_to(sum);
  if (row.bias != nullptr) row.bias[i].add_to(sum);
  if (row.residual != nullptr) row.residual[i].add_to(sum);
  value = P::rounded(sum);
  row.c[i] = value;
  return value;
}

template <typename T, int kCount>
__device__ float squares_of(const Pack<T, kCount>& value) {
  float elements[kCount] = {}, squares = 0;
  value.add_to(elements);
#pragma unroll
  for (int e = 0; e < kCount; ++e) squares += elements[e] * elements[e];
  return squares;
}

template <typename T, int kCount>
__device__ void normalise(const Row<Pack<T, kCount>>& row, std::int64_t i, const Pack<T, kCount>& value, float factor) {
  float elements[kCount] = {}, weights[kCount] = {};
  value.add_to(elements);
  row.norm_weight[i].add_to(weights);
#pragma unroll
  for (int e = 0; e < kCount; ++e) elements[e] = elements[e] * factor * weights[e];
  row.normed[i] = Pack<T, kCount>::rounded(elements);
}

template <typename T, int kCount>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) epilogue_kernel(const RowEpilogue epilogue) {
  using P = Pack<T, kCount>;
  using Sum = cub::BlockReduce<float, kThreads>;
  __shared__ typename Sum::TempStorage scratch;
  __shared__ float factor;
  const std::int64_t pack_count = epilogue.columns / kCount;
  for (std::int64_t index = blockIdx.x; index < epilogue.row_count; index += gridDim.x) {
    const auto at = [&](auto* bytes) { return bytes == nullptr ? nullptr : packs<P>(bytes) + index * pack_count; };
    const Row<P> row{at(epilogue.c), packs<P>(epilogue.bias), at(epilogue.residual), packs<P>(epilogue.norm_weight),
                     at(epilogue.normed)};
    P held[kHeldPacks];
    float squares = 0;
#pragma unroll
    for (int u = 0; u < kHeldPacks; ++u) {
      const std::int64_t i = u * kThreads + threadIdx.x;
      if (i < pack_count) squares += squares_of<T, kCount>(held[u] = added<T, kCount>(row, i));
    }
    constexpr int kHeld = kHeldPacks * kThreads;
    for (std::int64_t i = kHeld + threadIdx.x; i < pack_count; i += kThreads)
      squares += squares_of<T, kCount>(added<T, kCount>(row, i));
    if (row.normed == nullptr) continue;
    const float sum = Sum(scratch).Sum(squares); // thread 0 has it
    if (threadIdx.x == 0) factor = 1.0F / sqrtf(sum / static_cast<float>(epilogue.columns) + epilogue.norm_epsilon);
    __syncthreads();
#pragma unroll
    for (int u = 0; u < kHeldPacks; ++u) {
      const std::int64_t i = u * kThreads + threadIdx.x;
      if (i < pack_count) normalise<T, kCount>(row, i, held[u], factor);
    }
    for (std::int64_t i = kHeld + threadIdx.x; i < pack_count; i += kThreads)
      normalise<T, kCount>(row, i, row.c[i], factor);
    __syncthreads(); // before the next row's sum
  }
}

using EpilogueKernel = void (*)(RowEpilogue);

template <typename T>
EpilogueKernel epilogue_kernel_for(bool is_vector) {
  return is_vector ? epilogue_kernel<T, kVectorBytes / static_cast<int>(sizeof(T))> : epilogue_kernel<T, 1>;
}

bool can_use_vectors(const RowEpilogue& epilogue) {
  const std::byte* const addresses[] = {epilogue.c, epilogue.bias, epilogue.residual, epilogue.norm_weight,
                                        epilogue.normed};
  return epilogue.columns * planner::size_bytes(epilogue.dtype) % kVectorBytes == 0 &&
         std::all_of(std::begin(addresses), std::end(addresses), [](const std::byte* address) {
           return reinterpret_cast<std::uintptr_t>(address) % kVectorBytes == 0;
         });
}

} // namespace

void enqueue_epilogue(const RowEpilogue& epilogue, int sm_count, cudaStream_t stream) {
  const bool is_vector = can_use_vectors(epilogue);
  EpilogueKernel kernel = nullptr;
  switch (epilogue.dtype) {
    case planner::DType::F32: kernel = epilogue_kernel_for<float>(is_vector); break;
    case planner::DType::F16: kernel = epilogue_kernel_for<__half>(is_vector); break;
    case planner::DType::Bf16: kernel = epilogue_kernel_for<__nv_bfloat16>(is_vector); break;
    case planner::DType::I8:
    case planner::DType::F8E4m3: break; // their products are bf16
  }
  const auto block_count = std::min(epilogue.row_count, std::int64_t{kBlocksPerSm} * sm_count);
  if (block_count == 0) return;
  kernel<<<static_cast<unsigned>(block_count), kThreads, 0, stream>>>(epilogue);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
