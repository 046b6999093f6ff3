#include "backends/cuda/kernels/kernels.cuh"
#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {
namespace {

template <typename T, int kCount, int kRanks>
__global__ void __launch_bounds__(kThreads, 1) sum_kernel(const BlockExchange block, int piece_count) {
  using P = Pack<T, kCount>;
  P* sum_to = packs<P>(block.receive[0]);
  sum_range<T, kCount, kRanks>(block, kRanks == 0 ? piece_count : kRanks, 0, {0, block.element_count / kCount}, 0,
                               [&](std::int64_t i, const P& sum) { sum_to[i] = sum; });
}

using SumKernel = void (*)(BlockExchange, int);

template <typename T>
SumKernel sum_kernel_for(bool is_vector, int piece_count) {
  if (!is_vector) return sum_kernel<T, 1, 0>;
  constexpr int kCount = kVectorBytes / static_cast<int>(sizeof(T));
  switch (piece_count) {
    case 2: return sum_kernel<T, kCount, 2>;
    case 4: return sum_kernel<T, kCount, 4>;
    case 8: return sum_kernel<T, kCount, 8>;
    default: return sum_kernel<T, kCount, 0>;
  }
}

} // namespace

void enqueue_sum(const LocalSum& local, int cta_count, cudaStream_t stream) {
  BlockExchange block{.send = local.pieces, .element_count = local.element_count};
  block.receive.fill(local.sum);
  const bool is_vector = can_use_vectors(block, local.dtype, local.piece_count);
  SumKernel kernel = nullptr;
  switch (local.dtype) {
    case planner::DType::F32: kernel = sum_kernel_for<float>(is_vector, local.piece_count); break;
    case planner::DType::F16: kernel = sum_kernel_for<__half>(is_vector, local.piece_count); break;
    case planner::DType::Bf16: kernel = sum_kernel_for<__nv_bfloat16>(is_vector, local.piece_count); break;
    case planner::DType::I8:
    case planner::DType::F8E4m3: break; // not summed
  }
  kernel<<<static_cast<unsigned>(cta_count), kThreads, 0, stream>>>(block, local.piece_count);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
