#include "backends/cuda/kernels/kernels.cuh"
#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {
namespace {

/// Thread blocks of a low-latency all-reduce: always the same, so that their counters agree on whose turn it is.
constexpr int kMailCtas = 16;
constexpr int kPacketDataBytes = 8;
constexpr std::int64_t kMaxPackets = kMaxLowLatencyBytes / kPacketDataBytes;

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
      const std::int64_t element = packet * kElements + i;
      if (element >= block.element_count) continue;
      from_f32(sum[i], sum_to[block.row_elements == 0 ? element : landing<1, true>(block, element)]);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) *counter = turn;
}

using Kernel = void (*)(BlockExchange, SignalMemory);

} // namespace

void enqueue_mail(planner::DType dtype, const BlockExchange& block, const SignalMemory& signals, cudaStream_t stream) {
  Kernel kernel = nullptr;
  switch (dtype) {
    case planner::DType::F32: kernel = mail_kernel<float>; break;
    case planner::DType::F16: kernel = mail_kernel<__half>; break;
    case planner::DType::Bf16: kernel = mail_kernel<__nv_bfloat16>; break;
    case planner::DType::I8:
    case planner::DType::F8E4m3: break; // not summed
  }
  kernel<<<kMailCtas, kThreads, 0, stream>>>(block, signals);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
