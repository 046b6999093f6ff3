#pragma once

#include <cstdint>

#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

/// Marks what the calling thread does, for tools that show ranges (NVTX). Costs nanoseconds while none is attached,
/// and allocates nothing of its own.
class NamedRange {
 public:
  /// @param name    of static storage
  /// @param number  shown with it, e.g. a block's
  explicit NamedRange(const char* name, std::int64_t number = 0) noexcept;
  ~NamedRange();
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;

  /// Looks for a tool. To be called by each thread before its first range; several may at once.
  static void set_up() noexcept;
};

/// What a lane's work on one block is called.
[[nodiscard]] constexpr const char* block_range_name(planner::Lane lane) noexcept {
  return lane == planner::Lane::Compute ? "mc2 compute block" : "mc2 communication block";
}

} // namespace mc2::executor
