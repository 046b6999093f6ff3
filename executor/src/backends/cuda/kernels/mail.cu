#include "backends/cuda/kernels/finish.cuh"
#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {
namespace {

/// Thread blocks of a low-latency all-reduce: always the same number, so that their counters agree on the turn.
constexpr int kMailCtas = 16;
constexpr int kPacketDataBytes = 8;
constexpr std::int64_t kMaxPackets = kMaxLowLatencyBytes / kPacketDataBytes;
/// Packets of a row that a thread holds in registers. So rows have at most 32 KiB.
constexpr int kHeldPackets = 4;
constexpr int kRowThreads = kMostThreads;
/// A thread block takes its rows one after the other; many short rows would leave most of its threads idle.
constexpr std::int64_t kMostFinishedRows = std::int64_t{4} * kMailCtas;

/// Data and flag of a packet arrive together, because 16-byte accesses are not torn (NCCL's LL protocol relies on that,
/// too).
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

template <typename T>
using Packet = Pack<T, kPacketDataBytes / static_cast<int>(sizeof(T))>;

/// The mail of one all-reduce on a rank.
template <typename T>
struct Mail {
  __device__ void post_to_all(std::int64_t packet, uint2 data) const {
    for (int distance = 0; distance < signals.world_size; ++distance) {
      const int peer = (signals.rank + distance) % signals.world_size;
      post(signals.mail[peer] + half + signals.rank * kMaxPackets + packet, data, turn);
    }
  }

  /// Sums a packet over all ranks, in the same order on every rank, so the bits are equal.
  __device__ Packet<T> sum(std::int64_t packet) const {
    float elements[Packet<T>::kElements] = {};
    for (int rank = 0; rank < signals.world_size; ++rank) {
      const uint4* slot = signals.mail[signals.rank] + half + rank * kMaxPackets + packet;
      Packet<T>{receive(slot, turn, signals.abort)}.add_to(elements);
    }
    return Packet<T>::rounded(elements);
  }

  const SignalMemory& signals;
  std::uint32_t turn;
  std::int64_t half = static_cast<std::int64_t>(turn % 2) * kMaxCudaRanks * kMaxPackets;
};

/// An all-reduce by mail. Two halves of mail are enough: a peer that is one all-reduce ahead writes the other half, and
/// no peer can be two ahead, because it would need this rank's packets of the all-reduce between.
template <typename T>
__global__ void __launch_bounds__(kThreads, 1) mail_kernel(const BlockExchange block, const SignalMemory signals) {
  constexpr int kElements = Packet<T>::kElements;
  std::uint32_t* counter = signals.words[signals.rank] + kMailCounters + blockIdx.x;
  const Mail<T> mail{signals, *counter + 1};
  const T* mine = reinterpret_cast<const T*>(block.send[signals.rank]);
  T* sum_to = reinterpret_cast<T*>(block.receive[signals.rank]);
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
    mail.post_to_all(packet, data);
  }
  for (std::int64_t packet = first; packet < packet_count; packet += step) {
    const Packet<T> sum = mail.sum(packet);
    const T* elements = reinterpret_cast<const T*>(&sum);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const std::int64_t element = packet * kElements + i;
      if (element >= block.element_count) continue;
      sum_to[block.row_elements == 0 ? element : landing<1, true>(block, element)] = elements[i];
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) *counter = mail.turn;
}

/// mail_kernel for whole rows, followed by the epilogue (enqueue_epilogue()) while the rows are in registers: this
/// saves a launch, and C is written once only. A thread block finishes every 16th row. All thread blocks mail a share
/// of every row, so all 16 must be on the GPU at the same time.
template <typename T>
__global__ void __launch_bounds__(kRowThreads, 1)
    mail_rows_kernel(const BlockExchange block, const SignalMemory signals, const RowEpilogue epilogue) {
  using P = Packet<T>;
  std::uint32_t* counter = signals.words[signals.rank] + kMailCounters + blockIdx.x;
  const Mail<T> mail{signals, *counter + 1};
  const auto row_packets = static_cast<int>(epilogue.columns / P::kElements);
  const auto* mine = reinterpret_cast<const uint2*>(block.send[signals.rank]);
  const std::int64_t packet_count = epilogue.row_count * row_packets;
  const std::int64_t step = std::int64_t{gridDim.x} * kRowThreads; // all thread blocks, even for few rows
  for (std::int64_t i = std::int64_t{blockIdx.x} * kRowThreads + threadIdx.x; i < packet_count; i += step)
    mail.post_to_all(i, mine[i]);
  for (std::int64_t index = blockIdx.x; index < epilogue.row_count; index += gridDim.x)
    RowPass<P, kRowThreads, kHeldPackets, true>(epilogue, index)
        .finish(
            epilogue, [&](int i) { return mail.sum(index * row_packets + i); }, false);
  __syncthreads();
  if (threadIdx.x == 0) *counter = mail.turn;
}

using Kernel = void (*)(BlockExchange, SignalMemory);
using RowsKernel = void (*)(BlockExchange, SignalMemory, RowEpilogue);

} // namespace

void enqueue_mail(planner::DType dtype, const BlockExchange& block, const SignalMemory& signals, cudaStream_t stream) {
  const Kernel kernel = of_float_type(dtype, [](auto element) -> Kernel { return mail_kernel<decltype(element)>; });
  kernel<<<kMailCtas, kThreads, 0, stream>>>(block, signals);
  MC2_CUDA(cudaGetLastError());
}

bool can_finish_mail(const BlockExchange& block, const RowEpilogue& epilogue, int rank) {
  const auto own = static_cast<std::size_t>(rank);
  const std::int64_t row_bytes = epilogue.columns * planner::size_bytes(epilogue.dtype);
  return epilogue.row_count <= kMostFinishedRows && block.row_elements == 0 &&
         block.element_count == epilogue.row_count * epilogue.columns && block.receive[own] == epilogue.c &&
         row_bytes <= std::int64_t{kHeldPackets} * kRowThreads * kPacketDataBytes &&
         reinterpret_cast<std::uintptr_t>(block.send[own]) % kPacketDataBytes == 0 &&
         is_in_whole(kPacketDataBytes, epilogue);
}

void enqueue_mail_and_finish(const BlockExchange& block, const RowEpilogue& epilogue, const SignalMemory& signals,
                             cudaStream_t stream) {
  const RowsKernel kernel =
      of_float_type(epilogue.dtype, [](auto element) -> RowsKernel { return mail_rows_kernel<decltype(element)>; });
  kernel<<<kMailCtas, kRowThreads, 0, stream>>>(block, signals, epilogue);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
