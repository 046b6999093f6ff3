#pragma once

#include <cstdint>
#include <optional>

#include "fields.hpp"
#include "mc2/planner/collective.hpp"

namespace mc2::profiler {

/// What a tool counts as the size of a collective.
enum class SizeMeaning : std::uint8_t {
  FullArray, ///< the full array, as mc2's message_bytes
  PerRank,   ///< one rank's shard (all-gather, reduce-scatter) or one peer's part (all-to-all)
};

/// Bytes of the full array. Nothing for a PerRank size when the ranks are unknown or the result is out of range.
/// docs/importing.md has the table.
[[nodiscard]] inline std::optional<std::int64_t> full_array_bytes(std::int64_t bytes, SizeMeaning meaning,
                                                                  int world_size) {
  if (meaning == SizeMeaning::FullArray) return bytes;
  if (world_size < 1 || bytes < 0 || bytes > kMaxMessageBytes / world_size) return std::nullopt;
  return bytes * world_size;
}

} // namespace mc2::profiler
