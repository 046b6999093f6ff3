#pragma once

#include <cstdint>

#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

/// Marks what the calling thread does while *this lives, for tools that show NVTX ranges. Costs some nanoseconds if no
/// tool is attached. Allocates nothing itself.
class NamedRange {
 public:
  /// @param name    must have static storage
  /// @param number  shown beside the name, e.g. the number of a block
  explicit NamedRange(const char* name, std::int64_t number = 0) noexcept;
  ~NamedRange();
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;

  /// Looks for a tool. Each thread calls it before its first range. Threads: safe to share.
  static void set_up() noexcept;
};

/// The name of the range in which a lane works on one block.
[[nodiscard]] constexpr const char* block_range_name(planner::Lane lane) noexcept {
  return lane == planner::Lane::Compute ? "mc2 compute block" : "mc2 communication block";
}

} // namespace mc2::executor
