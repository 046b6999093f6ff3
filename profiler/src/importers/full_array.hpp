#pragma once

#include <cstdint>
#include <optional>

#include "fields.hpp"
#include "mc2/planner/collective.hpp"

namespace mc2::profiler {

/// What a tool's size counts for a collective.
enum class SizeMeaning : std::uint8_t {
  FullArray, ///< what mc2 calls message_bytes
  PerRank,   ///< one rank's shard (all-gather, reduce-scatter) or one peer's part (all-to-all)
};

/// The full array's bytes; nothing when ranks are unknown and matter, or out of range. docs/importing.md has the
/// table.
[[nodiscard]] inline std::optional<std::int64_t> full_array_bytes(std::int64_t bytes, SizeMeaning meaning,
                                                                  int world_size) {
  if (meaning == SizeMeaning::FullArray) return bytes;
  if (world_size < 1 || bytes < 0 || bytes > kMaxMessageBytes / world_size) return std::nullopt;
  return bytes * world_size;
}

} // namespace mc2::profiler
