#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace mc2::executor::cuda {

/// Whether other processes can map this memory of the current device. They can map memory of cudaMalloc, but not of the
/// driver's virtual memory management.
[[nodiscard]] bool is_shareable(const std::byte* address);

inline constexpr std::size_t kOfferBytes = 72;

/// An offer: the bytes that another process needs to map an address in shareable memory of the current device. Throws
/// SystemError.
/// @return kOfferBytes bytes, not all 0
[[nodiscard]] std::string offer_of(const std::byte* address);

/// Memory of other processes' devices, mapped into this process. Every allocation is mapped once only, because CUDA
/// refuses a second mapping. Threads: one at a time.
class PeerMemory {
 public:
  /// The offered address, as the current device reaches it. All users of an allocation own its mapping together; the
  /// last one unmaps it. Throws SystemError.
  [[nodiscard]] std::shared_ptr<std::byte> open(std::string_view offer);

 private:
  std::map<std::string, std::weak_ptr<std::byte>, std::less<>> allocations_; ///< by CUDA's handle
};

} // namespace mc2::executor::cuda
