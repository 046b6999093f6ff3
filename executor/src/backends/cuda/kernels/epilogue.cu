#include "backends/cuda/kernels/epilogue.hpp"

#include <algorithm>
#include <iterator>

#include "backends/cuda/kernels/finish.cuh"
#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {
namespace {

constexpr int kBlocksPerSm = 8;
constexpr int kRowThreads = 128; ///< of a row: few, so that many rows are under way on an SM
constexpr int kHeldPacks = 8;    ///< of a row that a thread keeps in registers until the row's squares are known

template <typename T, int kCount>
__global__ void __launch_bounds__(kRowThreads) epilogue_kernel(const RowEpilogue epilogue) {
  using P = Pack<T, kCount>;
  constexpr int kHeld = kHeldPacks * kRowThreads;
  const std::int64_t pack_count = epilogue.columns / kCount;
  const auto place = [](int u) { return u * kRowThreads + static_cast<std::int64_t>(threadIdx.x); };
  for (std::int64_t index = blockIdx.x; index < epilogue.row_count; index += gridDim.x) {
    const Row<P> row = row_of<P>(epilogue, index);
    P held[kHeldPacks], other[kHeldPacks]; // all loads before the first store, which might be of the same memory
#pragma unroll
    for (int u = 0; u < kHeldPacks; ++u) {
      if (place(u) >= pack_count) continue;
      held[u] = row.c[place(u)];
      if (row.residual != nullptr) other[u] = row.residual[place(u)];
    }
    float squares = 0;
#pragma unroll
    for (int u = 0; u < kHeldPacks; ++u) {
      if (place(u) >= pack_count) continue;
      squares += add(row, place(u), held[u], other[u], true);
      if (row.normed != nullptr) other[u] = row.norm_weight[place(u)];
    }
    for (std::int64_t i = kHeld + threadIdx.x; i < pack_count; i += kRowThreads) {
      P value = row.c[i], residual{};
      if (row.residual != nullptr) residual = row.residual[i];
      squares += add(row, i, value, residual, true);
    }
    if (row.normed == nullptr) continue;
    const float factor = norm_factor<kRowThreads>(squares, epilogue);
#pragma unroll
    for (int u = 0; u < kHeldPacks; ++u) {
      if (place(u) < pack_count) row.normed[place(u)] = normalised(held[u], other[u], factor);
    }
    for (std::int64_t i = kHeld + threadIdx.x; i < pack_count; i += kRowThreads)
      row.normed[i] = normalised(row.c[i], row.norm_weight[i], factor);
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
  kernel<<<static_cast<unsigned>(block_count), kRowThreads, 0, stream>>>(epilogue);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
