#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backends/cuda/check.hpp"
#include "backends/cuda/direct.hpp"

namespace mc2::executor::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kVectorBytes = 16;

// Signal memory: arrival flags of starts, of ends and of meetings by [cta][peer], then the counters of each.
constexpr int kFlagsPerRegion = kMaxDirectCtas * kMaxCudaRanks;
constexpr int kStartFlags = 0;
constexpr int kEndFlags = kFlagsPerRegion;
constexpr int kMeetingFlags = 2 * kFlagsPerRegion;
constexpr int kKernelCounters = 3 * kFlagsPerRegion;
constexpr int kMeetingCounters = kKernelCounters + kMaxDirectCtas;
constexpr int kMailCounters = kMeetingCounters + kMaxDirectCtas;

/// Thread blocks of a low-latency all-reduce: always the same, so that their counters agree on whose turn it is.
constexpr int kMailCtas = 16;
constexpr int kPacketDataBytes = 8;
constexpr std::int64_t kMaxPackets = kMaxLowLatencyBytes / kPacketDataBytes;

__device__ void raise(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ std::uint32_t look(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

/// Returns when the flag has reached `value`, or the run is aborted: its results are then thrown away by the host.
__device__ void wait_until(const std::uint32_t* flag, std::uint32_t value, const std::uint32_t* abort) {
  constexpr unsigned kSpinsPerLook = 4096; // the abort word lies in host memory, microseconds away
  for (unsigned spin = 1; static_cast<std::int32_t>(look(flag) - value) < 0; ++spin) {
    if (spin % kSpinsPerLook == 0 && look(abort) != 0) return;
  }
}

/// Meets the same thread block of every rank. What a rank wrote before is visible to all after it.
__device__ void meet(const SignalMemory& signals, int region, std::uint32_t value) {
  __syncthreads();
  if (threadIdx.x < signals.world_size) {
    const int peer = static_cast<int>(threadIdx.x);
    const int row = region + static_cast<int>(blockIdx.x) * kMaxCudaRanks;
    raise(signals.words[peer] + row + signals.rank, value);
    wait_until(signals.words[signals.rank] + row + peer, value, signals.abort);
  }
  __syncthreads();
}

__device__ float to_f32(float value) { return value; }
__device__ float to_f32(__half value) { return __half2float(value); }
__device__ float to_f32(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ void from_f32(float value, float& out) { out = value; }
__device__ void from_f32(float value, __half& out) { out = __float2half_rn(value); }
__device__ void from_f32(float value, __nv_bfloat16& out) { out = __float2bfloat16_rn(value); }

/// Elements that one access moves: 16 bytes of them, or a single one.
template <typename T, int kCount>
struct Pack;

template <typename T>
struct Pack<T, 1> {
  T word;
  __device__ void add_to(float* sum) const { sum[0] += to_f32(word); }
  __device__ static Pack rounded(const float* sum) {
    Pack pack;
    from_f32(sum[0], pack.word);
    return pack;
  }
};

template <typename T, int kCount>
struct Pack {
  static_assert(sizeof(T) * kCount == kVectorBytes);
  uint4 word; ///< one register quadruple, so that the compiler cannot split the access
  __device__ void add_to(float* sum) const {
    const T* elements = reinterpret_cast<const T*>(&word);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] += to_f32(elements[i]);
  }
  __device__ static Pack rounded(const float* sum) {
    Pack pack;
    T* elements = reinterpret_cast<T*>(&pack.word);
#pragma unroll
    for (int i = 0; i < kCount; ++i) from_f32(sum[i], elements[i]);
    return pack;
  }
};

/// Packs [first, last) of a piece.
struct Range {
  std::int64_t first;
  std::int64_t last;
};

template <typename P>
__device__ const P* packs(const std::byte* bytes) { return reinterpret_cast<const P*>(bytes); }
template <typename P>
__device__ P* packs(std::byte* bytes) { return reinterpret_cast<P*>(bytes); }

/// Loads that a thread has in flight at a time.
__host__ __device__ constexpr int unroll_of(int ranks) { return ranks == 0 || ranks > 4 ? 2 : (ranks > 2 ? 4 : 8); }

/// Calls `finish(i, sum over ranks of pack i + offset)` for the range. Peers are read from `first_rank` on, round robin,
/// and summed in that order. kRanks 0: known at run time only.
template <typename T, int kCount, int kRanks, typename Finish>
__device__ void sum_range(const BlockExchange& block, int ranks, int first_rank, Range range, std::int64_t offset,
                          const Finish& finish) {
  using P = Pack<T, kCount>;
  constexpr int kUnroll = unroll_of(kRanks);
  constexpr int kSlots = kRanks == 0 ? kMaxCudaRanks : kRanks;
  const P* from[kSlots];
#pragma unroll
  for (int r = 0; r < kSlots; ++r) from[r] = packs<P>(block.send[(first_rank + r) % ranks]) + offset;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = range.first + blockIdx.x * blockDim.x + threadIdx.x; i < range.last; i += step * kUnroll) {
    P loaded[kUnroll][kSlots];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (i + u * step < range.last) {
#pragma unroll
        for (int r = 0; r < kSlots; ++r) {
          if (kRanks != 0 || r < ranks) loaded[u][r] = from[r][i + u * step];
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (i + u * step < range.last) {
        float sum[kCount] = {};
#pragma unroll
        for (int r = 0; r < kSlots; ++r) {
          if (kRanks != 0 || r < ranks) loaded[u][r].add_to(sum);
        }
        finish(i + u * step, P::rounded(sum));
      }
    }
  }
}

template <typename T, int kCount>
__device__ void gather(const BlockExchange& block, const SignalMemory& signals, std::int64_t pack_count) {
  using P = Pack<T, kCount>;
  constexpr int kUnroll = 4;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (int distance = 1; distance < signals.world_size; ++distance) {
    const int peer = (signals.rank + distance) % signals.world_size; // another one on every rank at a time
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
        if (i + u * step < pack_count) to[i + u * step] = loaded[u];
      }
    }
  }
}

template <typename T, int kCount, int kRanks, DirectCollective kCollective>
__global__ void __launch_bounds__(kThreads, 1) direct_kernel(const BlockExchange block, const SignalMemory signals) {
  using P = Pack<T, kCount>;
  std::uint32_t* counter = signals.words[signals.rank] + kKernelCounters + blockIdx.x;
  const std::uint32_t turn = *counter + 1;
  if (block.meets_before) meet(signals, kStartFlags, turn);
  const std::int64_t pack_count = block.element_count / kCount;
  const int ranks = kRanks == 0 ? signals.world_size : kRanks;
  [[maybe_unused]] P* own = packs<P>(block.receive[signals.rank]);
  if constexpr (kCollective == DirectCollective::AllReduce) {
    const std::int64_t share = (pack_count + ranks - 1) / ranks;
    const std::int64_t first = share * signals.rank;
    constexpr int kSlots = kRanks == 0 ? kMaxCudaRanks : kRanks;
    P* to[kSlots];
#pragma unroll
    for (int r = 0; r < kSlots; ++r) to[r] = packs<P>(block.receive[(signals.rank + r) % ranks]);
    sum_range<T, kCount, kRanks>(block, ranks, signals.rank, {first, min(first + share, pack_count)}, 0,
                                 [&](std::int64_t i, const P& sum) {
#pragma unroll
                                   for (int r = 0; r < kSlots; ++r) {
                                     if (kRanks != 0 || r < ranks) to[r][i] = sum;
                                   }
                                 });
  } else if constexpr (kCollective == DirectCollective::ReduceScatter) {
    sum_range<T, kCount, kRanks>(block, ranks, signals.rank, {0, pack_count}, signals.rank * pack_count,
                                 [&](std::int64_t i, const P& sum) { own[i] = sum; });
  } else {
    gather<T, kCount>(block, signals, pack_count);
  }
  if (block.meets_after) meet(signals, kEndFlags, turn);
  __syncthreads();
  if (threadIdx.x == 0) *counter = turn;
}

template <typename T, int kCount, int kRanks>
__global__ void __launch_bounds__(kThreads, 1) sum_kernel(const BlockExchange block, int piece_count) {
  using P = Pack<T, kCount>;
  P* sum_to = packs<P>(block.receive[0]);
  sum_range<T, kCount, kRanks>(block, kRanks == 0 ? piece_count : kRanks, 0, {0, block.element_count / kCount}, 0,
                               [&](std::int64_t i, const P& sum) { sum_to[i] = sum; });
}

/// Data and flag of one packet arrive together: 16-byte accesses are not torn (NCCL's LL protocol rests on it too).
__device__ void post(uint4* slot, uint2 data, std::uint32_t turn) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(slot), "r"(data.x), "r"(turn), "r"(data.y),
               "r"(turn)
               : "memory");
}

__device__ uint2 receive(const uint4* slot, std::uint32_t turn, const std::uint32_t* abort) {
  constexpr unsigned kSpinsPerLook = 4096;
  uint4 packet;
  for (unsigned spin = 1;; ++spin) {
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(packet.x), "=r"(packet.y), "=r"(packet.z), "=r"(packet.w)
                 : "l"(slot)
                 : "memory");
    if (packet.y == turn && packet.w == turn) break;
    if (spin % kSpinsPerLook == 0 && look(abort) != 0) break;
  }
  return {packet.x, packet.z};
}

/// A peer that is one all-reduce ahead writes the other half of the mail, and none can be two ahead: it would need this
/// rank's packets of the one between.
template <typename T>
__global__ void __launch_bounds__(kThreads, 1) mail_kernel(const BlockExchange block, const SignalMemory signals) {
  constexpr int kElements = kPacketDataBytes / static_cast<int>(sizeof(T));
  std::uint32_t* counter = signals.words[signals.rank] + kMailCounters + blockIdx.x;
  const std::uint32_t turn = *counter + 1;
  const T* mine = reinterpret_cast<const T*>(block.send[signals.rank]);
  T* sum_to = reinterpret_cast<T*>(block.receive[signals.rank]);
  const std::int64_t half = static_cast<std::int64_t>(turn % 2) * kMaxCudaRanks * kMaxPackets;
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t packet_count = (block.element_count + kElements - 1) / kElements;
  for (std::int64_t packet = first; packet < packet_count; packet += step) {
    uint2 data{};
    T* elements = reinterpret_cast<T*>(&data);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (packet * kElements + i < block.element_count) elements[i] = mine[packet * kElements + i];
    }
    for (int distance = 0; distance < signals.world_size; ++distance) {
      const int peer = (signals.rank + distance) % signals.world_size;
      post(signals.mail[peer] + half + signals.rank * kMaxPackets + packet, data, turn);
    }
  }
  for (std::int64_t packet = first; packet < packet_count; packet += step) {
    float sum[kElements] = {};
    for (int rank = 0; rank < signals.world_size; ++rank) { // the same order everywhere, so the same bits
      const uint2 data = receive(signals.mail[signals.rank] + half + rank * kMaxPackets + packet, turn, signals.abort);
      const T* elements = reinterpret_cast<const T*>(&data);
#pragma unroll
      for (int i = 0; i < kElements; ++i) sum[i] += to_f32(elements[i]);
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (packet * kElements + i < block.element_count) from_f32(sum[i], sum_to[packet * kElements + i]);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) *counter = turn;
}

__global__ void meeting_kernel(const SignalMemory signals) {
  std::uint32_t* counter = signals.words[signals.rank] + kMeetingCounters;
  const std::uint32_t turn = *counter + 1;
  meet(signals, kMeetingFlags, turn);
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

template <typename T>
Kernel kernel_for(DirectCollective collective, bool is_vector, int world_size) {
  if (!is_vector) return kernel_for<T, 1, 0>(collective);
  constexpr int kCount = kVectorBytes / static_cast<int>(sizeof(T));
  switch (world_size) {
    case 2: return kernel_for<T, kCount, 2>(collective);
    case 4: return kernel_for<T, kCount, 4>(collective);
    case 8: return kernel_for<T, kCount, 8>(collective);
    default: return kernel_for<T, kCount, 0>(collective);
  }
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

bool can_use_vectors(const BlockExchange& block, planner::DType dtype, int world_size) {
  for (const std::int64_t elements : {block.element_count, block.send_stride, block.receive_stride}) {
    if (elements * planner::size_bytes(dtype) % kVectorBytes != 0) return false;
  }
  for (int rank = 0; rank < world_size; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (reinterpret_cast<std::uintptr_t>(block.send[index]) % kVectorBytes != 0) return false;
    if (reinterpret_cast<std::uintptr_t>(block.receive[index]) % kVectorBytes != 0) return false;
  }
  return true;
}

void enqueue_mail(planner::DType dtype, const BlockExchange& block, const SignalMemory& signals, cudaStream_t stream) {
  Kernel kernel = nullptr;
  switch (dtype) {
    case planner::DType::F32: kernel = mail_kernel<float>; break;
    case planner::DType::F16: kernel = mail_kernel<__half>; break;
    case planner::DType::Bf16: kernel = mail_kernel<__nv_bfloat16>; break;
    case planner::DType::I8: break; // refused
  }
  kernel<<<kMailCtas, kThreads, 0, stream>>>(block, signals);
  MC2_CUDA(cudaGetLastError());
}

} // namespace

void enqueue_direct(const DirectSettings& settings, const BlockExchange& block, const SignalMemory& signals,
                    cudaStream_t stream) {
  if (settings.collective == DirectCollective::AllReduceLowLatency)
    return enqueue_mail(settings.dtype, block, signals, stream);
  const bool is_vector = can_use_vectors(block, settings.dtype, signals.world_size);
  Kernel kernel = nullptr;
  switch (settings.dtype) {
    case planner::DType::F32: kernel = kernel_for<float>(settings.collective, is_vector, signals.world_size); break;
    case planner::DType::F16: kernel = kernel_for<__half>(settings.collective, is_vector, signals.world_size); break;
    case planner::DType::Bf16: kernel = kernel_for<__nv_bfloat16>(settings.collective, is_vector, signals.world_size); break;
    case planner::DType::I8: break; // refused
  }
  kernel<<<static_cast<unsigned>(settings.cta_count), kThreads, 0, stream>>>(block, signals);
  MC2_CUDA(cudaGetLastError());
}

void enqueue_sum(const LocalSum& local, int cta_count, cudaStream_t stream) {
  BlockExchange block{.send = local.pieces, .element_count = local.element_count};
  block.receive.fill(local.sum);
  const bool is_vector = can_use_vectors(block, local.dtype, local.piece_count);
  SumKernel kernel = nullptr;
  switch (local.dtype) {
    case planner::DType::F32: kernel = sum_kernel_for<float>(is_vector, local.piece_count); break;
    case planner::DType::F16: kernel = sum_kernel_for<__half>(is_vector, local.piece_count); break;
    case planner::DType::Bf16: kernel = sum_kernel_for<__nv_bfloat16>(is_vector, local.piece_count); break;
    case planner::DType::I8: break; // refused
  }
  kernel<<<static_cast<unsigned>(cta_count), kThreads, 0, stream>>>(block, local.piece_count);
  MC2_CUDA(cudaGetLastError());
}

void enqueue_meeting(const SignalMemory& signals, cudaStream_t stream) {
  meeting_kernel<<<1, 32, 0, stream>>>(signals);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
