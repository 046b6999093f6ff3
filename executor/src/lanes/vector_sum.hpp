#pragma once

#include <cstdint>
#include <span>

namespace mc2::executor::lanes {

/// result[i] = partials[0][i] + partials[1][i] + ... in this order, with the widest vectors that the CPU has: the same
/// bits on every CPU. At least 2 partials; `result` overlaps none.
/// @param streams_past_cache  write `result` to memory and leave the caches to the partials: for one that is larger
///                            than a core's cache and is not read soon
void sum_f32(std::span<const float* const> partials, float* result, std::int64_t count,
             bool streams_past_cache = false) noexcept;

/// Bytes from which on streaming past the caches is faster.
inline constexpr std::int64_t kStreamFromBytes = std::int64_t{2} << 20U; // docs/mpi.md

} // namespace mc2::executor::lanes
