#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <thread>

/// Simulates GPUs on the CPU, for tests on machines without GPUs. The library is loaded before the CUDA runtime, NCCL
/// and cuBLASLt and takes their place. Streams are threads, device memory is host memory, and for each of mc2's kernels
/// a CPU function computes the same. The tests thus run all of mc2's own code but the kernels. The library refuses the
/// illegal calls that CUDA refuses, as far as mc2 could make them.
namespace mc2::simulated {

/// The number of devices of this process: environment variable MC2_SIMULATED_GPUS, default 4.
[[nodiscard]] int device_count();
[[nodiscard]] int current_device() noexcept;
void set_current_device(int device) noexcept;
/// The memory of each device: environment variable MC2_SIMULATED_GPU_MIB, default 8192.
[[nodiscard]] std::size_t device_bytes();

/// Returns `code`; keeps it for cudaGetLastError() if it is a failure (cudaErrorNotReady is none).
cudaError_t done(cudaError_t code) noexcept;
cudaError_t take_last_error() noexcept;
/// The failure that a test has ordered for this call (faults.hpp); cudaSuccess if none.
[[nodiscard]] cudaError_t injected(const char* call) noexcept;

/// Waits as a spinning kernel does, but lets other threads run meanwhile.
template <typename Predicate>
void spin_until(const Predicate& is_true) {
  constexpr int kYields = 64;
  for (int spin = 0; !is_true(); ++spin) {
    if (spin < kYields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

struct Allocation {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  int file = -1;          ///< descriptor, if other processes can map the memory
  bool is_mapped = false; ///< the memory belongs to another process
  bool is_pooled = false; ///< from the device's default pool, which no other device may access
};

enum class Source { Malloc, VirtualMemory, Pool };

/// Allocates memory on the current device, as cudaMalloc, the driver's virtual memory management or a pool does.
[[nodiscard]] cudaError_t allocate(std::size_t byte_count, Source source, void** out);
/// Frees or unmaps memory of allocate() or map_file().
[[nodiscard]] cudaError_t release(void* base);
[[nodiscard]] std::optional<Allocation> allocation_of(const void* address);
/// Maps a file of another process, named by its descriptor in that process; null on failure.
[[nodiscard]] void* map_shared(int process, int file, std::size_t byte_count);
/// Maps device memory of another process (Allocation::file).
[[nodiscard]] cudaError_t map_file(int process, int file, std::size_t byte_count, void** out);
[[nodiscard]] std::size_t free_bytes(int device);

} // namespace mc2::simulated
