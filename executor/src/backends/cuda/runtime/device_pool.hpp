#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

#include "mc2/executor/communicator.hpp"

namespace mc2::executor::cuda {

/// Memory of one device, which stays allocated until the pool is destroyed. NCCL remembers the buffers of captured
/// graphs by address, even for some time after graph and buffer are gone, so an address must keep meaning the same
/// memory.
class DevicePool {
 public:
  enum class Source : std::uint8_t {
    Nccl, ///< ncclMemAlloc: the only memory that NCCL's symmetric kernels take; all devices of the process can reach it
    Cuda, ///< cudaMalloc: the only memory that other processes can map (cudaIpcGetMemHandle)
  };

  DevicePool(int device, Source source) : device_(device), source_(source) {}
  ~DevicePool();
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  /// Returns at least `byte_count` bytes, aligned to 2 MiB and readable by every peer; contents undefined.
  /// Throws SystemError if the device has not enough memory.
  [[nodiscard]] std::byte* take(std::size_t byte_count);
  void give_back(std::byte* base) noexcept;
  [[nodiscard]] int device() const noexcept { return device_; }
  /// Bytes of the device that a request of `byte_count` bytes takes.
  [[nodiscard]] static std::int64_t block_bytes(std::int64_t byte_count) noexcept;
  /// Bytes of the blocks that the pool could serve from idle memory if these requests came one after the other.
  [[nodiscard]] std::int64_t reusable_bytes(std::span<const std::int64_t> byte_counts) const;

 private:
  int device_;
  Source source_;
  mutable std::mutex mutex_;
  std::map<std::byte*, std::size_t> sizes_;     ///< sizes of all blocks
  std::multimap<std::size_t, std::byte*> idle_; ///< idle blocks by size
};

/// A block of a pool; the pool must outlive it.
class DeviceMemory final : public RankMemory {
 public:
  DeviceMemory(DevicePool& pool, std::size_t byte_count);
  ~DeviceMemory() override;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() noexcept override { return {base_, byte_count_}; }
  void upload(std::span<const std::byte> from) override;
  void download(std::span<std::byte> to) const override;

 private:
  DevicePool& pool_;
  std::size_t byte_count_;
  std::byte* base_;
};

} // namespace mc2::executor::cuda
