#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "lanes/symmetric_heap.hpp"
#include "mc2/executor/communicator.hpp"

namespace mc2::executor::lanes {

/// RankMemory in host memory. Its pages are mapped as those of a SymmetricHeap, with the same alignment and placement.
class HostMemory final : public RankMemory {
 public:
  explicit HostMemory(std::size_t byte_count) : heap_(1, byte_count) {}

  [[nodiscard]] std::span<std::byte> bytes() noexcept override { return heap_.segment(0); }
  void upload(std::span<const std::byte> from) override { std::ranges::copy(from, heap_.segment(0).begin()); }
  void download(std::span<std::byte> to) const override {
    std::ranges::copy(heap_.segment(0).first(to.size()), to.begin());
  }

 private:
  SymmetricHeap heap_;
};

} // namespace mc2::executor::lanes
