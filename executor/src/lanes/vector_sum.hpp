#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bf16.hpp"
#include "f16.hpp"

namespace mc2::executor::lanes {

/// result[i] = partials[0][i] + partials[1][i] + ... in this order, with the widest vectors that the CPU has. Every CPU
/// gives the same bits. There are at least 2 partials, and the result may be one of them.
/// @param streams_past_cache  writes `result` past the caches and leaves these to the partials: for a result that is
///                            larger than a core's cache and not read soon
void sum_f32(std::span<const std::byte* const> partials, float* result, std::int64_t count,
             bool streams_past_cache = false) noexcept;

/// The widest vectors that a sum may use, if the CPU has them.
enum class Vectors : std::uint8_t { None, Avx2, Avx512 };

/// As sum_f32() for short floats: accumulated in f32, rounded once if the result is short. From, the type of the
/// partials, and To are the same of F16 and Bf16, or one of them is float. If they differ, the result must not be one
/// of the partials.
template <typename From, typename To>
void sum_short(std::span<const std::byte* const> partials, To* result, std::int64_t count,
               Vectors widest = Vectors::Avx512) noexcept;

/// As sum_f32() modulo 256.
void sum_i8(std::span<const std::byte* const> partials, std::int8_t* result, std::int64_t count) noexcept;

/// sum[i] = sum[i] + addend[i], in f32 or modulo 256. The two must not overlap.
void add_f32(const float* addend, float* sum, std::int64_t count) noexcept;
void add_i8(const std::int8_t* addend, std::int8_t* sum, std::int64_t count) noexcept;

/// Copies past the caches, if the target is aligned to a vector: what they hold stays, and lines of the target that
/// another core's cache holds are not fetched first. Other threads may read the copies after finish_past_caches().
void copy_past_caches(const void* from, std::int64_t byte_count, void* to) noexcept;
void finish_past_caches() noexcept;

} // namespace mc2::executor::lanes
