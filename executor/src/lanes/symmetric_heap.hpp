#pragma once

#include <cstddef>
#include <span>

namespace mc2::executor::lanes {

/// Memory in which every rank has a segment of the same size and layout, so that offsets have the same meaning in all
/// segments. Every rank may read every segment; a rank writes only its own. Pages are zero until they are first
/// written, and lie in the NUMA node of the core that first writes them.
class SymmetricHeap {
 public:
  /// Throws: SystemError when the memory cannot be mapped.
  SymmetricHeap(int world_size, std::size_t bytes_per_rank);
  ~SymmetricHeap();
  SymmetricHeap(const SymmetricHeap&) = delete;
  SymmetricHeap& operator=(const SymmetricHeap&) = delete;

  [[nodiscard]] std::size_t bytes_per_rank() const noexcept { return bytes_per_rank_; }
  [[nodiscard]] std::span<std::byte> segment(int rank) const noexcept;

 private:
  std::size_t bytes_per_rank_ = 0; ///< as given to the constructor
  std::size_t stride_bytes_ = 0;   ///< distance of segments, a whole number of pages
  std::size_t mapped_bytes_ = 0;
  std::byte* base_ = nullptr;
};

} // namespace mc2::executor::lanes
