#pragma once

#include <cstddef>
#include <span>

namespace mc2::executor::lanes {

/// Memory in which every rank has a segment of the same size and layout, so that an offset means the same on all.
/// Every rank may read every segment; a rank writes only its own. Pages are zero until they are first written, and
/// belong to the core that first writes them.
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
  std::size_t bytes_per_rank_ = 0; ///< as asked for
  std::size_t stride_bytes_ = 0;   ///< from one segment to the next: whole pages
  std::size_t mapped_bytes_ = 0;
  std::byte* base_ = nullptr;
};

} // namespace mc2::executor::lanes
