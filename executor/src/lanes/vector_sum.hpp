#pragma once

#include <cstdint>
#include <span>

#include "bf16.hpp"
#include "f16.hpp"

namespace mc2::executor::lanes {

/// result[i] = partials[0][i] + partials[1][i] + ... in this order, with the widest vectors that the CPU has: the same
/// bits on every CPU. At least 2 partials; `result` overlaps none.
/// @param streams_past_cache  write `result` to memory and leave the caches to the partials: for one that is larger
///                            than a core's cache and is not read soon
void sum_f32(std::span<const float* const> partials, float* result, std::int64_t count,
             bool streams_past_cache = false) noexcept;

/// Vectors that a sum may use, where the CPU has them.
enum class Vectors : std::uint8_t { None, Avx2, Avx512 };

/// The same in f32, rounded once where the result is short. Between F16 or Bf16 and itself or float, to and fro. The
/// result may be one of the partials where it is of their type.
template <typename From, typename To>
void sum_short(std::span<const From* const> partials, To* result, std::int64_t count,
               Vectors widest = Vectors::Avx512) noexcept;

/// The same modulo 256. The result may be one of the partials.
void sum_i8(std::span<const std::int8_t* const> partials, std::int8_t* result, std::int64_t count) noexcept;

/// sum[i] = sum[i] + addend[i], of the same types, likewise; they do not overlap.
void add_f32(const float* addend, float* sum, std::int64_t count) noexcept;
void add_i8(const std::int8_t* addend, std::int8_t* sum, std::int64_t count) noexcept;

/// Bytes from which on streaming past the caches is faster.
inline constexpr std::int64_t kStreamFromBytes = std::int64_t{2} << 20U; // docs/mpi.md

} // namespace mc2::executor::lanes
