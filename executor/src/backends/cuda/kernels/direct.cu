#include "backends/cuda/kernels/kernels.cuh"
#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {
namespace {

template <typename T, int kCount, bool kByRows>
__device__ void gather(const BlockExchange& block, const SignalMemory& signals, std::int64_t pack_count) {
  using P = Pack<T, kCount>;
  constexpr int kUnroll = 4;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (int distance = 1; distance < signals.world_size; ++distance) {
    const int peer = (signals.rank + distance) % signals.world_size; // different ranks read different peers
    const P* from = packs<P>(block.send[peer]) + signals.rank * (block.send_stride / kCount);
    P* to = packs<P>(block.receive[signals.rank]) + peer * (block.receive_stride / kCount);
    for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < pack_count; i += step * kUnroll) {
      P loaded[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (i + u * step < pack_count) loaded[u] = from[i + u * step];
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (i + u * step < pack_count) to[landing<kCount, kByRows>(block, i + u * step)] = loaded[u];
      }
    }
  }
}

/// The packs of a block: where they start in the ranks' memory, and how many there are.
struct PackRun {
  std::int64_t send_first = 0;
  std::int64_t receive_first = 0;
  std::int64_t count = 0;
};

template <typename T, int kCount, int kRanks, bool kByRows>
__device__ void all_reduce(const BlockExchange& block, const SignalMemory& signals, const PackRun& run) {
  using P = Pack<T, kCount>;
  const int ranks = kRanks == 0 ? signals.world_size : kRanks;
  const std::int64_t share = (run.count + ranks - 1) / ranks;
  const std::int64_t first = share * signals.rank;
  constexpr int kSlots = kRanks == 0 ? kMaxCudaRanks : kRanks;
  P* to[kSlots];
#pragma unroll
  for (int r = 0; r < kSlots; ++r) to[r] = packs<P>(block.receive[(signals.rank + r) % ranks]) + run.receive_first;
  sum_range<T, kCount, kRanks>(block, ranks, signals.rank, {first, min(first + share, run.count)}, run.send_first,
                               [&](std::int64_t i, const P& sum) {
#pragma unroll
                                 for (int r = 0; r < kSlots; ++r) {
                                   if (kRanks != 0 || r < ranks) to[r][landing<kCount, kByRows>(block, i)] = sum;
                                 }
                               });
}

template <typename T, int kCount, int kRanks>
__device__ void reduce_scatter(const BlockExchange& block, const SignalMemory& signals, const PackRun& run) {
  using P = Pack<T, kCount>;
  const int ranks = kRanks == 0 ? signals.world_size : kRanks;
  P* own = packs<P>(block.receive[signals.rank]) + run.receive_first;
  sum_range<T, kCount, kRanks>(block, ranks, signals.rank, {0, run.count}, run.send_first + signals.rank * run.count,
                               [&](std::int64_t i, const P& sum) { own[i] = sum; });
}

template <typename T, int kCount, int kRanks, DirectCollective kCollective, bool kByRows>
__device__ void carry(const BlockExchange& block, const SignalMemory& signals) {
  const PackRun run{0, 0, block.element_count / kCount};
  if constexpr (kCollective == DirectCollective::AllReduce) all_reduce<T, kCount, kRanks, kByRows>(block, signals, run);
  if constexpr (kCollective == DirectCollective::ReduceScatter) reduce_scatter<T, kCount, kRanks>(block, signals, run);
  if constexpr (kCollective == DirectCollective::Gather) gather<T, kCount, kByRows>(block, signals, run.count);
}

template <typename T, int kCount, int kRanks, DirectCollective kCollective>
__global__ void __launch_bounds__(kThreads, 1) direct_kernel(const BlockExchange block, const SignalMemory signals) {
  std::uint32_t* counter = signals.words[signals.rank] + kKernelCounters + blockIdx.x;
  const std::uint32_t turn = *counter + 1;
  if (block.meets_before) meet(signals, kStartFlags, turn);
  if (block.row_elements == 0)
    carry<T, kCount, kRanks, kCollective, false>(block, signals);
  else
    carry<T, kCount, kRanks, kCollective, true>(block, signals);
  if (block.meets_after) meet(signals, kEndFlags, turn);
  __syncthreads();
  if (threadIdx.x == 0) *counter = turn;
}

/// Returns when every rank has announced `count` blocks since the last meeting.
__device__ void await_announcements(const SignalMemory& signals, std::uint32_t count) {
  if (threadIdx.x < signals.world_size)
    wait_until(signals.words[signals.rank] + kAnnouncements + threadIdx.x, count, signals.abort);
  __syncthreads();
}

template <typename T, int kCount, int kRanks, DirectCollective kCollective>
__global__ void __launch_bounds__(kThreads, 1) span_kernel(const BlockSpan span, const SignalMemory signals) {
  std::uint32_t* counter = signals.words[signals.rank] + kKernelCounters + blockIdx.x;
  const std::uint32_t turn = *counter + 1;
  for (int i = 0; i < span.block_count; ++i) {
    if (span.waits) await_announcements(signals, static_cast<std::uint32_t>(i + 1));
    const BlockSpan::Place& place = span.places[static_cast<unsigned>(i)];
    const PackRun run{place.send_first / kCount, place.receive_first / kCount, place.element_count / kCount};
    if constexpr (kCollective == DirectCollective::AllReduce)
      all_reduce<T, kCount, kRanks, false>(span.base, signals, run);
    else
      reduce_scatter<T, kCount, kRanks>(span.base, signals, run);
  }
  if (span.base.meets_after) meet(signals, kEndFlags, turn);
  __syncthreads();
  if (threadIdx.x == 0) *counter = turn;
}

/// Copies a row. Called by all threads of a warp.
template <typename Word>
__device__ void copy_row(const Word* from, Word* to, std::int64_t row_words) {
  constexpr int kWarp = 32, kUnroll = 4;
  for (std::int64_t word = threadIdx.x % kWarp; word < row_words; word += kWarp * kUnroll) {
    Word loaded[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (word + u * kWarp < row_words) loaded[u] = from[word + u * kWarp];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (word + u * kWarp < row_words) to[word + u * kWarp] = loaded[u];
  }
}

/// Each warp copies rows of its own. Neighbouring warps read neighbouring rows, mostly of the same peer.
template <typename Word>
__device__ void copy_rows(const BlockExchange& block, int rank, std::int64_t row_words) {
  constexpr int kWarp = 32;
  const RowCopies copies = block.row_copies[rank];
  const std::int64_t warps = std::int64_t{gridDim.x} * blockDim.x / kWarp;
  std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp; // among all rows left
  __shared__ RowCopy near[kThreads]; // in shared memory, because fetching one from global memory takes 0.25 us
  for (int first = 0; first < copies.count; first += kThreads) {
    const int count = min(kThreads, copies.count - first);
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < count) near[threadIdx.x] = copies.first[first + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < count; ++i) {
      const RowCopy& copy = near[i];
      for (; row < copy.rows.row_count; row += warps)
        copy_row(packs<Word>(block.send[copy.peer]) + (copy.rows.from_row + row) * row_words,
                 packs<Word>(block.receive[rank]) + (copy.rows.to_row + row) * row_words, row_words);
      row -= copy.rows.row_count;
    }
  }
}

template <typename Word>
__global__ void __launch_bounds__(kThreads, 1)
    row_kernel(const BlockExchange block, const SignalMemory signals, const std::int64_t row_words) {
  std::uint32_t* counter = signals.words[signals.rank] + kKernelCounters + blockIdx.x;
  const std::uint32_t turn = *counter + 1;
  if (block.meets_before) meet(signals, kStartFlags, turn);
  copy_rows<Word>(block, signals.rank, row_words);
  if (block.meets_after) meet(signals, kEndFlags, turn);
  __syncthreads();
  if (threadIdx.x == 0) *counter = turn;
}

using Kernel = void (*)(BlockExchange, SignalMemory);

template <typename T, int kCount, int kRanks>
Kernel kernel_for(DirectCollective collective) {
  switch (collective) {
    case DirectCollective::AllReduce: return direct_kernel<T, kCount, kRanks, DirectCollective::AllReduce>;
    case DirectCollective::AllReduceLowLatency: break; // mail_kernel
    case DirectCollective::ReduceScatter: return direct_kernel<T, kCount, kRanks, DirectCollective::ReduceScatter>;
    case DirectCollective::Gather: return direct_kernel<T, kCount, kRanks, DirectCollective::Gather>;
  }
  return nullptr;
}

using SpanKernel = void (*)(BlockSpan, SignalMemory);

template <typename T, int kRanks>
SpanKernel span_kernel_for(DirectCollective collective) {
  constexpr int kCount = kVectorElements<T>;
  if (collective == DirectCollective::AllReduce) return span_kernel<T, kCount, kRanks, DirectCollective::AllReduce>;
  return span_kernel<T, kCount, kRanks, DirectCollective::ReduceScatter>;
}

/// Launches the kernel in clusters of two thread blocks, which take neighbouring SMs. Hopper's matmuls run in clusters,
/// too, and every pair of SMs that is broken up costs them both (docs/gpu_lab_notes.md).
template <typename... Parameters>
void launch_in_pairs(void (*kernel)(Parameters...), int cta_count, cudaStream_t stream,
                     const Parameters&... arguments) {
  int device = 0;
  int has_clusters = 0;
  MC2_CUDA(cudaGetDevice(&device));
  MC2_CUDA(cudaDeviceGetAttribute(&has_clusters, cudaDevAttrClusterLaunch, device));
  cudaLaunchAttribute pairs{};
  pairs.id = cudaLaunchAttributeClusterDimension;
  pairs.val.clusterDim.x = 2;
  pairs.val.clusterDim.y = pairs.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(cta_count));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &pairs;
  config.numAttrs = has_clusters != 0 && cta_count % 2 == 0 ? 1 : 0;
  MC2_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

/// Puts all blocks, at most kMaxSpanBlocks, in one span.
BlockSpan make_span(const std::vector<BlockExchange>& blocks, planner::DType dtype) {
  const std::int64_t element_bytes = planner::size_bytes(dtype);
  BlockSpan span{.base = blocks.front()};
  for (const BlockExchange& block : blocks) {
    span.places[static_cast<std::size_t>(span.block_count++)] = {
        .send_first = (block.send[0] - span.base.send[0]) / element_bytes,
        .receive_first = (block.receive[0] - span.base.receive[0]) / element_bytes,
        .element_count = block.element_count};
  }
  span.base.meets_after = blocks.back().meets_after;
  return span;
}

/// The largest power of two, at most 16, that divides the length of a row in bytes and all non-null addresses of the
/// matrices.
std::int64_t row_alignment(const BlockExchange& block, std::int64_t row_bytes, const SignalMemory& signals) {
  std::uint64_t places = static_cast<std::uint64_t>(row_bytes) | kVectorBytes;
  for (int rank = 0; rank < signals.world_size; ++rank)
    places |= reinterpret_cast<std::uintptr_t>(block.send[static_cast<std::size_t>(rank)]);
  places |= reinterpret_cast<std::uintptr_t>(block.receive[static_cast<std::size_t>(signals.rank)]);
  return static_cast<std::int64_t>(places & (~places + 1));
}

void enqueue_rows(const DirectSettings& settings, const BlockExchange& block, const SignalMemory& signals,
                  cudaStream_t stream) {
  const std::int64_t row_bytes = block.element_count * planner::size_bytes(settings.dtype);
  const std::int64_t aligned_bytes = row_alignment(block, row_bytes, signals);
  const auto launch = [&](auto kernel, std::int64_t word_bytes) {
    launch_in_pairs(kernel, settings.cta_count, stream, block, signals, row_bytes / word_bytes);
  };
  if (aligned_bytes >= kVectorBytes) return launch(row_kernel<uint4>, kVectorBytes);
  if (aligned_bytes >= 4) return launch(row_kernel<std::uint32_t>, 4);
  launch(row_kernel<std::uint16_t>, 2);
}

} // namespace

void enqueue_direct(const DirectSettings& settings, const BlockExchange& block, const SignalMemory& signals,
                    cudaStream_t stream) {
  if (block.row_runs != nullptr) return enqueue_rows(settings, block, signals, stream);
  if (settings.collective == DirectCollective::AllReduceLowLatency)
    return enqueue_mail(settings.dtype, block, signals, stream);
  const bool is_vector = can_use_vectors(block, settings.dtype, signals.world_size);
  const Kernel kernel = of_float_type(settings.dtype, [&](auto element) {
    using T = decltype(element);
    if (!is_vector) return kernel_for<T, 1, 0>(settings.collective);
    return of_rank_count(signals.world_size, [&](auto ranks) {
      return kernel_for<T, kVectorElements<T>, decltype(ranks)::value>(settings.collective);
    });
  });
  launch_in_pairs(kernel, settings.cta_count, stream, block, signals);
}

bool can_span(const std::vector<BlockExchange>& blocks, planner::DType dtype, int world_size) {
  for (const BlockExchange& block : blocks) {
    if (block.row_elements != 0 || !can_use_vectors(block, dtype, world_size)) return false;
  }
  return true;
}

void enqueue_span(const DirectSettings& settings, const std::vector<BlockExchange>& blocks, bool waits,
                  const SignalMemory& signals, cudaStream_t stream) {
  const SpanKernel kernel = of_float_type(settings.dtype, [&](auto element) {
    return of_rank_count(signals.world_size, [&](auto ranks) {
      return span_kernel_for<decltype(element), decltype(ranks)::value>(settings.collective);
    });
  });
  BlockSpan span = make_span(blocks, settings.dtype);
  span.waits = waits;
  launch_in_pairs(kernel, settings.cta_count, stream, span, signals);
}

} // namespace mc2::executor::cuda
