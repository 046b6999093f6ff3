#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <thread>

/// GPUs on the CPU, for tests where there are none: a library that is loaded before CUDA's, NCCL's and cuBLASLt's and
/// answers in their stead. Streams are threads, device memory is memory, and our kernels are run by functions that do
/// the same, so that everything but the kernels is the product's own code. It refuses what CUDA refuses, as far as
/// the product can do it.
namespace mc2::simulated {

/// Of this process, from the environment: MC2_SIMULATED_GPUS, 4 unless set.
[[nodiscard]] int device_count();
[[nodiscard]] int current_device() noexcept;
void set_current_device(int device) noexcept;
/// Of each device: MC2_SIMULATED_GPU_MIB, 8192 unless set.
[[nodiscard]] std::size_t device_bytes();

/// Returns `code` and keeps a failure for cudaGetLastError().
cudaError_t done(cudaError_t code) noexcept;
cudaError_t take_last_error() noexcept;
/// The failure that a test has asked this call for, if any (faults.hpp).
[[nodiscard]] cudaError_t injected(const char* call) noexcept;

/// Waits as a kernel does: others run meanwhile.
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
  int file = -1;          ///< of memory that other processes can map
  bool is_mapped = false; ///< of another process
  bool is_pooled = false; ///< of the device's default pool, which no other device may reach
};

enum class Source { Malloc, VirtualMemory, Pool };

/// On the current device, as cudaMalloc or as the driver's virtual memory management makes it.
[[nodiscard]] cudaError_t allocate(std::size_t byte_count, Source source, void** out);
/// What an earlier call has made, or map_file().
[[nodiscard]] cudaError_t release(void* base);
[[nodiscard]] std::optional<Allocation> allocation_of(const void* address);
/// A process's file, by its descriptor there; null where that cannot be.
[[nodiscard]] void* map_shared(int process, int file, std::size_t byte_count);
/// Another process's device memory.
[[nodiscard]] cudaError_t map_file(int process, int file, std::size_t byte_count, void** out);
[[nodiscard]] std::size_t free_bytes(int device);

} // namespace mc2::simulated
