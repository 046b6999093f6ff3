#include "simulated_gpu/device.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "simulated_gpu/faults.hpp"

namespace mc2::simulated {
namespace {

constexpr std::size_t kGranularityBytes = std::size_t{2} << 20U; ///< sizes are rounded up to it

std::size_t from_environment(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoul(text);
}

thread_local int current = 0;
thread_local cudaError_t last_error = cudaSuccess;

/// All allocations. The object is never destroyed, because the threads of streams outlive main().
struct Memory {
  std::mutex mutex;
  std::map<const std::byte*, Allocation> allocations; ///< by base
  std::map<int, std::size_t> used;                    ///< by device
};

Memory& memory() {
  static auto* const found = new Memory;
  return *found;
}

std::size_t rounded_up(std::size_t byte_count) {
  return (byte_count + kGranularityBytes - 1) / kGranularityBytes * kGranularityBytes;
}

struct Fault {
  int device;
  int calls_before;
  cudaError_t code;
};

struct Faults {
  std::mutex mutex;
  std::map<std::string, Fault> by_call;
};

Faults& faults() {
  static auto* const found = new Faults;
  return *found;
}

} // namespace

int device_count() {
  static const auto count = static_cast<int>(from_environment("MC2_SIMULATED_GPUS", 4));
  return count;
}

std::size_t device_bytes() {
  static const std::size_t bytes = from_environment("MC2_SIMULATED_GPU_MIB", 8192) << 20U;
  return bytes;
}

int current_device() noexcept { return current; }
void set_current_device(int device) noexcept { current = device; }

cudaError_t done(cudaError_t code) noexcept {
  if (code != cudaSuccess && code != cudaErrorNotReady) last_error = code;
  return code;
}

cudaError_t take_last_error() noexcept { return std::exchange(last_error, cudaSuccess); }

cudaError_t injected(const char* call) noexcept {
  Faults& all = faults();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_call.find(call);
  if (found == all.by_call.end() || found->second.device != current || found->second.calls_before-- > 0)
    return cudaSuccess;
  const cudaError_t code = found->second.code;
  all.by_call.erase(found);
  return code;
}

cudaError_t allocate(std::size_t byte_count, Source source, void** out) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const std::size_t size = rounded_up(byte_count);
  if (all.used[current] + size > device_bytes()) return cudaErrorMemoryAllocation;
  const int file = source == Source::Malloc ? memfd_create("simulated GPU", MFD_CLOEXEC) : -1;
  if (file >= 0 && ftruncate(file, static_cast<off_t>(size)) != 0) return cudaErrorMemoryAllocation;
  void* base =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
  if (base == MAP_FAILED) return cudaErrorMemoryAllocation;
  all.used[current] += size;
  auto* const place = static_cast<std::byte*>(base);
  all.allocations[place] = {
      .base = place, .bytes = size, .device = current, .file = file, .is_pooled = source == Source::Pool};
  *out = base;
  return cudaSuccess;
}

void* map_shared(int process, int file, std::size_t byte_count) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return nullptr;
  void* const base = mmap(nullptr, byte_count, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
  close(opened);
  return base == MAP_FAILED ? nullptr : base;
}

cudaError_t map_file(int process, int file, std::size_t byte_count, void** out) {
  auto* const place = static_cast<std::byte*>(map_shared(process, file, byte_count));
  if (place == nullptr) return cudaErrorMapBufferObjectFailed;
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  all.allocations[place] = {.base = place, .bytes = byte_count, .device = current, .is_mapped = true};
  *out = place;
  return cudaSuccess;
}

cudaError_t release(void* base) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.allocations.find(static_cast<std::byte*>(base));
  if (found == all.allocations.end()) return cudaErrorInvalidValue;
  const Allocation gone = found->second;
  all.allocations.erase(found);
  if (!gone.is_mapped) all.used[gone.device] -= gone.bytes;
  munmap(gone.base, gone.bytes);
  if (gone.file >= 0) close(gone.file);
  return cudaSuccess;
}

std::optional<Allocation> allocation_of(const void* address) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto* const place = static_cast<const std::byte*>(address);
  auto after = all.allocations.upper_bound(place);
  if (after == all.allocations.begin()) return std::nullopt;
  const Allocation& found = (--after)->second;
  if (place >= found.base + found.bytes) return std::nullopt;
  return found;
}

std::size_t free_bytes(int device) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  return device_bytes() - all.used[device];
}

} // namespace mc2::simulated

void mc2_simulated_gpu_fail(const char* call, int device, int calls_before, int code) {
  auto& all = mc2::simulated::faults();
  const std::lock_guard lock(all.mutex);
  all.by_call[call] = {device, calls_before, static_cast<cudaError_t>(code)};
}
