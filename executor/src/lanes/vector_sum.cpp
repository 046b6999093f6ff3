#include "lanes/vector_sum.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "lanes/vector_width.hpp"

namespace mc2::executor::lanes {
namespace {

constexpr std::int64_t kVectorTileElements = 1024; // stays in the first-level cache

MC2_EVERY_VECTOR_WIDTH void add_two(const float* left, const float* right, float* sum, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = left[i] + right[i];
}

MC2_EVERY_VECTOR_WIDTH void add_one(const float* addend, float* sum, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += addend[i];
}

void sum_tile(std::span<const float* const> partials, std::int64_t first, float* sum, std::int64_t count) noexcept {
  add_two(partials[0] + first, partials[1] + first, sum, count);
  for (const float* partial : partials.subspan(2)) add_one(partial + first, sum, count);
}

/// Whole lines bypass the caches; what is left over is copied.
void stream(const float* from, float* to, std::int64_t count) noexcept {
  std::int64_t i = 0;
#if defined(__x86_64__)
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128) == 0)
    for (; i + 4 <= count; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
#endif
  std::copy(from + i, from + count, to + i);
}

void finish_streaming() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

} // namespace

void sum_f32(std::span<const float* const> partials, float* result, std::int64_t count,
             bool streams_past_cache) noexcept {
  alignas(64) std::array<float, kVectorTileElements> tile;
  for (std::int64_t first = 0; first < count; first += kVectorTileElements) {
    const std::int64_t length = std::min(kVectorTileElements, count - first);
    sum_tile(partials, first, streams_past_cache ? tile.data() : result + first, length);
    if (streams_past_cache) stream(tile.data(), result + first, length);
  }
  if (streams_past_cache) finish_streaming();
}

} // namespace mc2::executor::lanes
