// Measures the bandwidth of the links of four GPUs, by the way of copying, the direction and the pattern. Prints a CSV.
//
//     nvcc -O3 -std=c++17 -gencode=arch=compute_90,code=sm_90 tests/bench/gpu_links.cu -o gpu_links && ./gpu_links
//
// Every GPU has 32 MiB for each other GPU. No GPU waits for another between copies.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kRanks = 4;
constexpr std::size_t kWords = (std::size_t{32} << 20U) / sizeof(uint4); // for each other GPU
constexpr int kRounds = 9, kCopies = 4;
constexpr int kChunkBytes = 16384, kStages = 8; // for bulk copies through shared memory

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "gpu_links: %s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}

struct Memory {
  uint4* to[kRanks];
  const uint4* from[kRanks];
};

/// The GPUs to which a GPU copies: `count` GPUs from `first` on, one after another (is_in_turn) or at once.
struct Pattern {
  const char* name;
  int first, count;
  bool is_in_turn;
  int active_ranks;
};

struct Job {
  Memory memory;
  int rank;
  bool pulls;
  Pattern pattern;

  __device__ uint4* target(int peer) const {
    return pulls ? memory.to[rank] + peer * kWords : memory.to[peer] + rank * kWords;
  }
  __device__ const uint4* source(int peer) const {
    return pulls ? memory.from[peer] + rank * kWords : memory.from[rank] + peer * kWords;
  }
  /// Calls `copy(peer, block, block count)` for each part that this thread block copies.
  template <typename Copy>
  __device__ void for_each_peer(const Copy& copy) const {
    const int parts = pattern.is_in_turn ? 1 : pattern.count;
    const int first = pattern.is_in_turn ? 0 : blockIdx.x % parts;
    const int last = pattern.is_in_turn ? pattern.count : first + 1;
    for (int i = first; i < last; ++i) copy((rank + pattern.first + i) % kRanks, blockIdx.x / parts, gridDim.x / parts);
  }
};

__global__ void __launch_bounds__(512) copy_words(Job job) {
  constexpr int kUnroll = 8;
  job.for_each_peer([&](int peer, std::size_t block, std::size_t block_count) {
    uint4* const to = job.target(peer);
    const uint4* const from = job.source(peer);
    const std::size_t stride = block_count * blockDim.x;
    std::size_t at = block * blockDim.x + threadIdx.x;
    for (; at + (kUnroll - 1) * stride < kWords; at += kUnroll * stride) {
      uint4 words[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) words[i] = __ldcg(from + at + i * stride);
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) __stcg(to + at + i * stride, words[i]);
    }
    for (; at < kWords; at += stride) __stcg(to + at, __ldcg(from + at));
  });
}

__device__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// Copies with one thread: half of the stages are being filled while the others are being emptied.
__global__ void __launch_bounds__(32) copy_chunks(Job job) {
  extern __shared__ __align__(128) unsigned char chunks[];
  __shared__ __align__(8) unsigned long long filled[kStages];
  if (threadIdx.x != 0) return;
  for (auto& barrier : filled) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&barrier)));
  asm volatile("fence.mbarrier_init.release.cluster;");
  unsigned phase[kStages] = {};
  int filling = 0, emptying = 0, under_way = 0;
  job.for_each_peer([&](int peer, std::size_t block, std::size_t block_count) {
    auto* const to = reinterpret_cast<unsigned char*>(job.target(peer));
    const auto* const from = reinterpret_cast<const unsigned char*>(job.source(peer));
    constexpr std::size_t kChunks = kWords * sizeof(uint4) / kChunkBytes;
    for (std::size_t next = block, done = block; done < kChunks; done += block_count) {
      for (; next < kChunks && under_way < kStages / 2; next += block_count, ++under_way) {
        asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kStages / 2 - 1) : "memory");
        const unsigned barrier = shared_address(&filled[filling]);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(kChunkBytes) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         shared_address(chunks + filling * kChunkBytes)),
                     "l"(from + next * kChunkBytes), "r"(kChunkBytes), "r"(barrier)
                     : "memory");
        filling = (filling + 1) % kStages;
      }
      unsigned is_full = 0;
      while (is_full == 0)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_full)
                     : "r"(shared_address(&filled[emptying])), "r"(phase[emptying])
                     : "memory");
      phase[emptying] ^= 1U;
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + done * kChunkBytes),
                   "r"(shared_address(chunks + emptying * kChunkBytes)), "r"(kChunkBytes)
                   : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      emptying = (emptying + 1) % kStages;
      --under_way;
    }
  });
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

struct Gpu {
  cudaStream_t stream;
  cudaEvent_t start, end;
};

Memory open_gpus(std::vector<Gpu>& gpus) {
  Memory memory{};
  for (int rank = 0; rank < kRanks; ++rank) {
    check(cudaSetDevice(rank), "cudaSetDevice: four GPUs are needed");
    for (int peer = 0; peer < kRanks; ++peer)
      if (peer != rank) check(cudaDeviceEnablePeerAccess(peer, 0), "cudaDeviceEnablePeerAccess");
    void *from = nullptr, *to = nullptr;
    check(cudaMalloc(&from, kRanks * kWords * sizeof(uint4)), "cudaMalloc");
    check(cudaMalloc(&to, kRanks * kWords * sizeof(uint4)), "cudaMalloc");
    check(cudaMemset(from, rank + 1, kRanks * kWords * sizeof(uint4)), "cudaMemset");
    memory.from[rank] = static_cast<const uint4*>(from);
    memory.to[rank] = static_cast<uint4*>(to);
    Gpu& gpu = gpus.emplace_back();
    check(cudaStreamCreate(&gpu.stream), "cudaStreamCreate");
    check(cudaEventCreate(&gpu.start), "cudaEventCreate");
    check(cudaEventCreate(&gpu.end), "cudaEventCreate");
    check(cudaFuncSetAttribute(copy_chunks, cudaFuncAttributeMaxDynamicSharedMemorySize, kChunkBytes * kStages),
          "cudaFuncSetAttribute");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  return memory;
}

/// GB/s that a GPU sends: median over rounds, of the slowest GPU. `copy(rank, stream)` enqueues all copies of one GPU.
template <typename Copy>
double gb_per_s(const std::vector<Gpu>& gpus, const Pattern& pattern, const Copy& copy) {
  std::vector<float> slowest;
  for (int round = 0; round < kRounds; ++round) {
    for (int rank = 0; rank < pattern.active_ranks; ++rank) {
      check(cudaSetDevice(rank), "cudaSetDevice");
      check(cudaEventRecord(gpus[rank].start, gpus[rank].stream), "cudaEventRecord");
      for (int i = 0; i < kCopies; ++i) copy(rank, gpus[rank].stream);
      check(cudaEventRecord(gpus[rank].end, gpus[rank].stream), "cudaEventRecord");
    }
    float longest_ms = 0;
    for (int rank = 0; rank < pattern.active_ranks; ++rank) {
      float ms = 0;
      check(cudaStreamSynchronize(gpus[rank].stream), "cudaStreamSynchronize");
      check(cudaEventElapsedTime(&ms, gpus[rank].start, gpus[rank].end), "cudaEventElapsedTime");
      longest_ms = std::max(longest_ms, ms);
    }
    slowest.push_back(longest_ms / kCopies);
  }
  check(cudaGetLastError(), "a kernel");
  std::nth_element(slowest.begin(), slowest.begin() + kRounds / 2, slowest.end());
  return static_cast<double>(pattern.count) * kWords * sizeof(uint4) / slowest[kRounds / 2] / 1e6;
}

} // namespace

int main() {
  std::vector<Gpu> gpus;
  const Memory memory = open_gpus(gpus);
  constexpr Pattern kPatterns[] = {{"one GPU to one other", 1, 1, true, 1},
                                   {"each to its next one", 1, 1, true, kRanks},
                                   {"each to its next but one", 2, 1, true, kRanks},
                                   {"each to all others at once", 1, 3, false, kRanks},
                                   {"each to one other after another", 1, 3, true, kRanks}};
  std::puts("pattern,copied_by,thread_blocks,push_GB/s,pull_GB/s,push_by_bulk_copies_GB/s,pull_by_bulk_copies_GB/s");
  for (const Pattern& pattern : kPatterns) {
    for (const int blocks : {12, 24, 48, 132}) {
      std::printf("%s,kernel,%d", pattern.name, blocks);
      for (const bool is_bulk : {false, true}) {
        for (const bool pulls : {false, true}) {
          std::printf(",%.1f", gb_per_s(gpus, pattern, [&](int rank, cudaStream_t stream) {
                        const Job job{memory, rank, pulls, pattern};
                        if (is_bulk)
                          copy_chunks<<<blocks, 32, kChunkBytes * kStages, stream>>>(job);
                        else
                          copy_words<<<blocks, 512, 0, stream>>>(job);
                      }));
        }
      }
      std::puts("");
    }
    if (!pattern.is_in_turn) continue; // copies in one stream run one after another
    std::printf("%s,copy engine,-,%.1f,-,-,-\n", pattern.name,
                gb_per_s(gpus, pattern, [&](int rank, cudaStream_t stream) {
                  for (int i = 0; i < pattern.count; ++i) {
                    const int peer = (rank + pattern.first + i) % kRanks;
                    check(cudaMemcpyAsync(memory.to[peer] + rank * kWords, memory.from[rank] + peer * kWords,
                                          kWords * sizeof(uint4), cudaMemcpyDefault, stream),
                          "cudaMemcpyAsync");
                  }
                }));
  }
  return 0;
}
