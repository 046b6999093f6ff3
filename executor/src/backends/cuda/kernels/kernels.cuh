#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "backends/cuda/kernels/direct.hpp"

// Shared by the kernels of this folder and of tiles/.
namespace mc2::executor::cuda {

inline constexpr int kThreads = 512;
inline constexpr int kVectorBytes = 16;

// Layout of the signal memory: arrival flags of starts, ends and meetings by [cta][peer], then the counters of kernels,
// meetings and mail.
inline constexpr int kFlagsPerRegion = kMaxDirectCtas * kMaxCudaRanks;
inline constexpr int kStartFlags = 0;
inline constexpr int kEndFlags = kFlagsPerRegion;
inline constexpr int kMeetingFlags = 2 * kFlagsPerRegion;
inline constexpr int kKernelCounters = 3 * kFlagsPerRegion;
inline constexpr int kMeetingCounters = kKernelCounters + kMaxDirectCtas;
inline constexpr int kMailCounters = kMeetingCounters + kMaxDirectCtas;
// The numbers of blocks announced since the last meeting: by each peer, then by the rank itself.
inline constexpr int kAnnouncements = kMailCounters + kMaxDirectCtas;
inline constexpr int kAnnouncementCounter = kAnnouncements + kMaxCudaRanks;

__device__ inline void raise(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ inline std::uint32_t look(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

/// Returns when the flag has reached `value`, or when the run is aborted; then the host discards the results.
__device__ inline void wait_until(const std::uint32_t* flag, std::uint32_t value, const std::uint32_t* abort) {
  constexpr unsigned kSpinsPerLook = 4096; // the abort word lies in host memory, microseconds away
  for (unsigned spin = 1; static_cast<std::int32_t>(look(flag) - value) < 0; ++spin) {
    if (spin % kSpinsPerLook == 0 && look(abort) != 0) return;
  }
}

/// Meets the same thread block of every rank. Afterwards everything that any of these ranks has written before is
/// visible.
__device__ inline void meet(const SignalMemory& signals, int region, std::uint32_t value) {
  __syncthreads();
  if (threadIdx.x < signals.world_size) {
    const int peer = static_cast<int>(threadIdx.x);
    const int row = region + static_cast<int>(blockIdx.x) * kMaxCudaRanks;
    raise(signals.words[peer] + row + signals.rank, value);
    wait_until(signals.words[signals.rank] + row + peer, value, signals.abort);
  }
  __syncthreads();
}

__device__ inline float to_f32(float value) { return value; }
__device__ inline float to_f32(__half value) { return __half2float(value); }
__device__ inline float to_f32(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline void from_f32(float value, float& out) { out = value; }
__device__ inline void from_f32(float value, __half& out) { out = __float2half_rn(value); }
__device__ inline void from_f32(float value, __nv_bfloat16& out) { out = __float2bfloat16_rn(value); }

/// The elements that one access moves: 16 or 8 bytes, or a single element.
template <typename T, int kCount>
struct Pack;

template <typename T>
struct Pack<T, 1> {
  static constexpr int kElements = 1;
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
  static constexpr int kElements = kCount;
  using Word = std::conditional_t<sizeof(T) * kCount == kVectorBytes, uint4, uint2>;
  static_assert(sizeof(T) * kCount == sizeof(Word));
  Word word; ///< a vector of registers, so that the compiler cannot split the access
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
__device__ const P* packs(const std::byte* bytes) {
  return reinterpret_cast<const P*>(bytes);
}
template <typename P>
__device__ P* packs(std::byte* bytes) {
  return reinterpret_cast<P*>(bytes);
}

/// The place, in packs, where pack i of a piece is put down. kByRows: row by row.
template <int kCount, bool kByRows>
__device__ std::int64_t landing(const BlockExchange& block, std::int64_t i) {
  if constexpr (!kByRows) return i;
  const std::int64_t row_packs = block.row_elements / kCount;
  return i / row_packs * (block.receive_pitch / kCount) + i % row_packs;
}

/// Number of packs per rank that a thread loads at a time.
__host__ __device__ constexpr int unroll_of(int ranks) { return ranks == 0 || ranks > 4 ? 2 : (ranks > 2 ? 4 : 8); }

/// The elements of a range that a thread takes: every step-th.
struct Walk {
  std::int64_t first;
  std::int64_t last;
  std::int64_t step;
};

/// Calls `finish(at(i), sum over ranks of pack at(i) + offset)` along a walk. Reads the ranks from `first_rank` on,
/// round robin, and sums in that order. kRanks 0: the number of ranks is known at run time only.
template <typename T, int kCount, int kRanks, typename Place, typename Finish>
__device__ void sum_along(const BlockExchange& block, int ranks, int first_rank, Walk walk, std::int64_t offset,
                          const Place& at, const Finish& finish) {
  using P = Pack<T, kCount>;
  constexpr int kUnroll = unroll_of(kRanks);
  constexpr int kSlots = kRanks == 0 ? kMaxCudaRanks : kRanks;
  const P* from[kSlots];
#pragma unroll
  for (int r = 0; r < kSlots; ++r) from[r] = packs<P>(block.send[(first_rank + r) % ranks]) + offset;
  for (std::int64_t i = walk.first; i < walk.last; i += walk.step * kUnroll) {
    P loaded[kUnroll][kSlots];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (i + u * walk.step < walk.last) {
#pragma unroll
        for (int r = 0; r < kSlots; ++r) {
          if (kRanks != 0 || r < ranks) loaded[u][r] = from[r][at(i + u * walk.step)];
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (i + u * walk.step < walk.last) {
        float sum[kCount] = {};
#pragma unroll
        for (int r = 0; r < kSlots; ++r) {
          if (kRanks != 0 || r < ranks) loaded[u][r].add_to(sum);
        }
        finish(at(i + u * walk.step), P::rounded(sum));
      }
    }
  }
}

/// sum_along() over a range, divided among all thread blocks.
template <typename T, int kCount, int kRanks, typename Finish>
__device__ void sum_range(const BlockExchange& block, int ranks, int first_rank, Range range, std::int64_t offset,
                          const Finish& finish) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const Walk walk{range.first + thread, range.last, std::int64_t{gridDim.x} * blockDim.x};
  sum_along<T, kCount, kRanks>(
      block, ranks, first_rank, walk, offset, [](std::int64_t i) { return i; }, finish);
}

/// Returns `make(T{})` for a type that is summed; null for other types, whose products are bf16 (exchanged_as()).
template <typename Make>
auto of_float_type(planner::DType dtype, const Make& make) -> decltype(make(float{})) {
  switch (dtype) {
    case planner::DType::F32: return make(float{});
    case planner::DType::F16: return make(__half{});
    case planner::DType::Bf16: return make(__nv_bfloat16{});
    case planner::DType::I8:
    case planner::DType::F8E4m3: break;
  }
  return nullptr;
}

/// Returns `make(kRanks)` with the number of ranks as a constant; 0 for numbers that have no kernel of their own.
template <typename Make>
auto of_rank_count(int world_size, const Make& make) {
  switch (world_size) {
    case 2: return make(std::integral_constant<int, 2>{});
    case 4: return make(std::integral_constant<int, 4>{});
    case 8: return make(std::integral_constant<int, 8>{});
    default: return make(std::integral_constant<int, 0>{});
  }
}

template <typename T>
inline constexpr int kVectorElements = kVectorBytes / static_cast<int>(sizeof(T));

inline bool can_use_vectors(const BlockExchange& block, planner::DType dtype, int world_size) {
  for (const std::int64_t elements :
       {block.element_count, block.send_stride, block.receive_stride, block.row_elements, block.receive_pitch}) {
    if (elements * planner::size_bytes(dtype) % kVectorBytes != 0) return false;
  }
  for (int rank = 0; rank < world_size; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (reinterpret_cast<std::uintptr_t>(block.send[index]) % kVectorBytes != 0) return false;
    if (reinterpret_cast<std::uintptr_t>(block.receive[index]) % kVectorBytes != 0) return false;
  }
  return true;
}

} // namespace mc2::executor::cuda
