#include "backends/cuda/kernels/kernels.cuh"
#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {
namespace {

__global__ void meeting_kernel(const SignalMemory signals) {
  std::uint32_t* counter = signals.words[signals.rank] + kMeetingCounters;
  const std::uint32_t turn = *counter + 1;
  // Resets the announcements. This is safe, because no peer announces anything before it has met this rank here.
  std::uint32_t* announcements = signals.words[signals.rank] + kAnnouncements;
  if (threadIdx.x < signals.world_size) announcements[threadIdx.x] = 0;
  if (threadIdx.x == 0) signals.words[signals.rank][kAnnouncementCounter] = 0;
  meet(signals, kMeetingFlags, turn);
  if (threadIdx.x == 0) *counter = turn;
}

__global__ void announcement_kernel(const SignalMemory signals) {
  std::uint32_t* counter = signals.words[signals.rank] + kAnnouncementCounter;
  const std::uint32_t count = *counter + 1;
  __syncthreads();
  if (threadIdx.x < signals.world_size) raise(signals.words[threadIdx.x] + kAnnouncements + signals.rank, count);
  if (threadIdx.x == 0) *counter = count;
}

} // namespace

void enqueue_meeting(const SignalMemory& signals, cudaStream_t stream) {
  meeting_kernel<<<1, 32, 0, stream>>>(signals);
  MC2_CUDA(cudaGetLastError());
}

void enqueue_announcement(const SignalMemory& signals, cudaStream_t stream) {
  announcement_kernel<<<1, 32, 0, stream>>>(signals);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
