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

} // namespace

void enqueue_sum(const LocalSum& local, int cta_count, cudaStream_t stream) {
  BlockExchange block{.send = local.pieces, .element_count = local.element_count};
  block.receive.fill(local.sum);
  const bool is_vector = can_use_vectors(block, local.dtype, local.piece_count);
  const SumKernel kernel = of_float_type(local.dtype, [&](auto element) -> SumKernel {
    using T = decltype(element);
    if (!is_vector) return sum_kernel<T, 1, 0>;
    return of_rank_count(local.piece_count, [](auto ranks) -> SumKernel {
      return sum_kernel<T, kVectorElements<T>, decltype(ranks)::value>;
    });
  });
  kernel<<<static_cast<unsigned>(cta_count), kThreads, 0, stream>>>(block, local.piece_count);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
