#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace mc2::executor::cuda {

/// Whether other processes can map memory of the current device: cudaMalloc's, not the driver's virtual memory
/// management's.
[[nodiscard]] bool is_shareable(const std::byte* address);

inline constexpr std::size_t kOfferBytes = 72;

/// What another process needs to reach an address in shareable memory of the current device. Throws SystemError.
/// @return kOfferBytes bytes, not all 0
[[nodiscard]] std::string offer_of(const std::byte* address);

/// Memory of other processes' devices, mapped into this one. Every allocation is mapped once, whoever asks, because
/// CUDA maps it no second time. Threads: one at a time.
class PeerMemory {
 public:
  /// The address that was offered, as the current device reaches it. Shared by all that use the allocation: the last
  /// one unmaps it. Throws SystemError.
  [[nodiscard]] std::shared_ptr<std::byte> open(std::string_view offer);

 private:
  std::map<std::string, std::weak_ptr<std::byte>, std::less<>> allocations_; ///< by CUDA's handle
};

} // namespace mc2::executor::cuda
