#include "backends/cuda/kernels/epilogue.hpp"

#include <algorithm>

#include "backends/cuda/kernels/finish.cuh"
#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {
namespace {

constexpr int kBlocksPerSm = 8;
constexpr int kRowThreads = 128; ///< few threads per row, so that many rows are under way on an SM
constexpr int kHeldPacks = 8;

template <typename T, int kCount>
__global__ void __launch_bounds__(kRowThreads) epilogue_kernel(const RowEpilogue epilogue) {
  using P = Pack<T, kCount>;
  for (std::int64_t index = blockIdx.x; index < epilogue.row_count; index += gridDim.x)
    RowPass<P, kRowThreads, kHeldPacks, false>(epilogue, index).finish(epilogue);
}

using EpilogueKernel = void (*)(RowEpilogue);

} // namespace

void enqueue_epilogue(const RowEpilogue& epilogue, int sm_count, cudaStream_t stream) {
  const bool is_vector = is_in_whole(kVectorBytes, epilogue);
  const EpilogueKernel kernel = of_float_type(epilogue.dtype, [&](auto element) -> EpilogueKernel {
    using T = decltype(element);
    return is_vector ? epilogue_kernel<T, kVectorElements<T>> : epilogue_kernel<T, 1>;
  });
  const auto block_count = std::min(epilogue.row_count, std::int64_t{kBlocksPerSm} * sm_count);
  if (block_count == 0) return;
  kernel<<<static_cast<unsigned>(block_count), kRowThreads, 0, stream>>>(epilogue);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
