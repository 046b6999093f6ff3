#include "lanes/symmetric_heap.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "mc2/planner/error.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::lanes {
namespace {

constexpr std::size_t kSmallPageBytes = 4096;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20U;

} // namespace

SymmetricHeap::SymmetricHeap(int world_size, std::size_t bytes_per_rank) : bytes_per_rank_(bytes_per_rank) {
  const std::size_t at_least_one = std::max<std::size_t>(bytes_per_rank, 1); // mmap refuses 0 bytes
  stride_bytes_ = planner::align_up(at_least_one, bytes_per_rank < kHugePageBytes ? kSmallPageBytes : kHugePageBytes);
  mapped_bytes_ = stride_bytes_ * static_cast<std::size_t>(world_size);
  void* base = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    throw SystemError("mmap", errno,
                      "symmetric heap of " + std::to_string(mapped_bytes_) + " bytes: " + std::strerror(errno));
  }
  base_ = static_cast<std::byte*>(base);
  madvise(base_, mapped_bytes_, MADV_HUGEPAGE); // a hint: small pages only cost speed
}

SymmetricHeap::~SymmetricHeap() { munmap(base_, mapped_bytes_); }

std::span<std::byte> SymmetricHeap::segment(int rank) const noexcept {
  return {base_ + stride_bytes_ * static_cast<std::size_t>(rank), bytes_per_rank_};
}

} // namespace mc2::executor::lanes
