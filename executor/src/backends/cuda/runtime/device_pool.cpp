#include "backends/cuda/runtime/device_pool.hpp"

#include <algorithm>

#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/runtime/handles.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {
namespace {

constexpr std::size_t kGranularityBytes = std::size_t{2} << 20U;
/// An idle block that is more than this many times larger than the request is kept for a request of its size.
constexpr std::size_t kMostWaste = 2;

std::size_t rounded_up(std::size_t byte_count) {
  return planner::align_up(std::max<std::size_t>(1, byte_count), kGranularityBytes);
}

using IdleBlocks = std::multimap<std::size_t, std::byte*>;

IdleBlocks::const_iterator fitting(const IdleBlocks& idle, std::size_t size) {
  const auto found = idle.lower_bound(size);
  return found != idle.end() && found->first <= kMostWaste * size ? found : idle.end();
}

} // namespace

DevicePool::~DevicePool() {
  const OnDevice on_device(device_);
  for (const auto& [base, size] : sizes_) {
    if (source_ == Source::Nccl)
      (void)ncclMemFree(base);
    else
      log_failure(cudaFree(base), "cudaFree");
  }
}

std::byte* DevicePool::take(std::size_t byte_count) {
  const std::size_t size = rounded_up(byte_count);
  const std::lock_guard lock(mutex_);
  if (const auto found = fitting(idle_, size); found != idle_.end()) {
    std::byte* base = found->second;
    idle_.erase(found);
    return base;
  }
  const OnDevice on_device(device_);
  void* base = nullptr;
  if (source_ == Source::Nccl)
    check(ncclMemAlloc(&base, size), "ncclMemAlloc", device_);
  else
    check(cudaMalloc(&base, size), "cudaMalloc", device_);
  sizes_.emplace(static_cast<std::byte*>(base), size);
  return static_cast<std::byte*>(base);
}

std::int64_t DevicePool::block_bytes(std::int64_t byte_count) noexcept {
  return static_cast<std::int64_t>(rounded_up(static_cast<std::size_t>(byte_count)));
}

void DevicePool::give_back(std::byte* base) noexcept {
  const std::lock_guard lock(mutex_);
  idle_.emplace(sizes_.at(base), base);
}

std::int64_t DevicePool::reusable_bytes(std::span<const std::int64_t> byte_counts) const {
  const std::lock_guard lock(mutex_);
  auto idle = idle_;
  std::int64_t sum = 0;
  for (const std::int64_t byte_count : byte_counts) {
    const auto found = fitting(idle, rounded_up(static_cast<std::size_t>(byte_count)));
    if (found == idle.end()) continue;
    sum += block_bytes(byte_count);
    idle.erase(found);
  }
  return sum;
}

DeviceMemory::DeviceMemory(DevicePool& pool, std::size_t byte_count)
    : pool_(pool), byte_count_(byte_count), base_(pool.take(byte_count)) {}

DeviceMemory::~DeviceMemory() { pool_.give_back(base_); }

void DeviceMemory::upload(std::span<const std::byte> from) {
  MC2_CHECK(from.size() <= byte_count_, "more bytes than the memory has");
  const OnDevice on_device(pool_.device());
  MC2_CUDA(cudaMemcpy(base_, from.data(), from.size(), cudaMemcpyHostToDevice));
  MC2_CUDA(cudaStreamSynchronize(nullptr)); // from pageable memory, cudaMemcpy may return before the data has arrived
}

void DeviceMemory::download(std::span<std::byte> to) const {
  MC2_CHECK(to.size() <= byte_count_, "more bytes than the memory has");
  const OnDevice on_device(pool_.device());
  MC2_CUDA(cudaMemcpy(to.data(), base_, to.size(), cudaMemcpyDeviceToHost));
}

} // namespace mc2::executor::cuda
