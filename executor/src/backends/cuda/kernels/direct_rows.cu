#include <algorithm>

#include "backends/cuda/kernels/finish.cuh"
#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {
namespace {

constexpr int kRowThreads = 256, kHeldPacks = 4; ///< threads hold rows of up to 16 KiB in registers and read them once
/// For larger results a second kernel is as fast.
constexpr std::int64_t kMostFinishedBytes = std::int64_t{32} << 20U;

/// Sums this rank's share of the columns. A thread block has every gridDim.x-th row, the same rows on all ranks.
template <typename T, int kRanks>
__device__ void sum_own_columns(const BlockExchange& block, const SignalMemory& signals, std::int64_t columns) {
  constexpr int kCount = kVectorElements<T>;
  constexpr int kSlots = kRanks == 0 ? kMaxCudaRanks : kRanks;
  using P = Pack<T, kCount>;
  const int ranks = kRanks == 0 ? signals.world_size : kRanks;
  const auto row_packs = static_cast<int>(columns / kCount);
  const auto row_count = static_cast<int>(block.element_count / columns);
  const int most = (row_packs + ranks - 1) / ranks;
  const int first = most * signals.rank;
  const int share = max(min(most, row_packs - first), 0);
  if (share == 0) return;
  const int rows =
      (row_count - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  P* to[kSlots];
#pragma unroll
  for (int r = 0; r < kSlots; ++r) to[r] = packs<P>(block.receive[(signals.rank + r) % ranks]);
  const auto at = [&](std::int64_t i) {
    const int row = static_cast<int>(i) / share;
    return (blockIdx.x + std::int64_t{row} * gridDim.x) * row_packs + first + (static_cast<int>(i) - row * share);
  };
  const Walk walk{threadIdx.x, std::int64_t{rows} * share, kThreads};
  sum_along<T, kCount, kRanks>(block, ranks, signals.rank, walk, 0, at, [&](std::int64_t i, const P& sum) {
#pragma unroll
    for (int r = 0; r < kSlots; ++r)
      if (kRanks != 0 || r < ranks) to[r][i] = sum;
  });
}

/// An all-reduce of whole rows and the epilogue. A thread block meets the same thread block of its peers and then
/// finishes its rows: it waits for no other thread block, and reads the residual during the meeting.
template <typename T, int kRanks>
__global__ void __launch_bounds__(kThreads, 1)
    direct_rows_kernel(const BlockExchange block, const SignalMemory signals, const RowEpilogue epilogue) {
  using Pass = RowPass<Pack<T, kVectorElements<T>>, kRowThreads, kHeldPacks, true>;
  constexpr int kGroups = kThreads / kRowThreads; // each group handles one row at a time
  std::uint32_t* counter = signals.words[signals.rank] + kKernelCounters + blockIdx.x;
  const std::uint32_t turn = *counter + 1;
  if (block.meets_before) meet(signals, kStartFlags, turn);
  sum_own_columns<T, kRanks>(block, signals, epilogue.columns);
  const std::int64_t group = static_cast<int>(threadIdx.x) / kRowThreads;
  std::int64_t index = blockIdx.x + group * gridDim.x;
  const std::int64_t step = std::int64_t{kGroups} * gridDim.x;
  Pass pass(epilogue, min(index, epilogue.row_count - 1));
  meet(signals, kEndFlags, turn);
  while (index < epilogue.row_count) {
    pass.finish(epilogue);
    index += step;
    if (index < epilogue.row_count) pass = Pass(epilogue, index);
  }
  __syncthreads();
  if (threadIdx.x == 0) *counter = turn;
}

using Kernel = void (*)(BlockExchange, SignalMemory, RowEpilogue);

} // namespace

bool can_finish_direct(const BlockExchange& block, const RowEpilogue& epilogue, int world_size) {
  const std::int64_t row_bytes = epilogue.columns * planner::size_bytes(epilogue.dtype);
  return block.is_last && block.meets_after && !block.copies_own && block.row_elements == 0 &&
         block.element_count == epilogue.row_count * epilogue.columns && row_bytes % kVectorBytes == 0 &&
         epilogue.row_count * row_bytes <= kMostFinishedBytes && can_use_vectors(block, epilogue.dtype, world_size);
}

void enqueue_direct_and_finish(const BlockExchange& block, const RowEpilogue& epilogue, int sm_count,
                               const SignalMemory& signals, cudaStream_t stream) {
  const auto rank = static_cast<std::size_t>(signals.rank);
  const bool finishes = block.receive[rank] == epilogue.c && is_in_whole(kVectorBytes, epilogue);
  const RowEpilogue none{.columns = epilogue.columns, .dtype = epilogue.dtype};
  const Kernel kernel = of_float_type(epilogue.dtype, [&](auto element) {
    return of_rank_count(signals.world_size, [](auto ranks) -> Kernel {
      return direct_rows_kernel<decltype(element), decltype(ranks)::value>;
    });
  });
  // Nothing is multiplied beside the last block of a run, so the kernel may take most SMs. It leaves some for kernels
  // of other communicators, which ranks may start in another order.
  constexpr int kSparedSms = 4;
  const auto cta_count = static_cast<unsigned>(
      std::min<std::int64_t>(epilogue.row_count, std::clamp(sm_count - kSparedSms, 1, kMaxDirectCtas)));
  kernel<<<cta_count, kThreads, 0, stream>>>(block, signals, finishes ? epilogue : none);
  MC2_CUDA(cudaGetLastError());
  if (!finishes) enqueue_epilogue(epilogue, sm_count, stream);
}

} // namespace mc2::executor::cuda
