#include "lanes/vector_sum.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "element.hpp"
#include "lanes/vector_width.hpp"

namespace mc2::executor::lanes {
namespace {

constexpr std::int64_t kVectorTileElements = 1024; // stays in the first-level cache

MC2_EVERY_VECTOR_WIDTH void add_two(const float* left, const float* right, float* sum, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = left[i] + right[i];
}

MC2_EVERY_VECTOR_WIDTH void add_one(const float* __restrict addend, float* __restrict sum,
                                    std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += addend[i];
}

MC2_EVERY_VECTOR_WIDTH void add_two(const std::int8_t* left, const std::int8_t* right, std::int8_t* sum,
                                    std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = static_cast<std::int8_t>(left[i] + right[i]);
}

MC2_EVERY_VECTOR_WIDTH void add_one(const std::int8_t* __restrict addend, std::int8_t* __restrict sum,
                                    std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = static_cast<std::int8_t>(sum[i] + addend[i]);
}

template <typename Element>
const Element* element(const std::byte* partial, std::int64_t index) noexcept {
  return reinterpret_cast<const Element*>(partial) + index;
}

template <typename Element>
void sum_in_tiles(std::span<const std::byte* const> partials, Element* result, std::int64_t count,
                  bool streams_past_cache) noexcept {
  alignas(64) std::array<Element, kVectorTileElements> tile;
  for (std::int64_t first = 0; first < count; first += kVectorTileElements) {
    const std::int64_t length = std::min(kVectorTileElements, count - first);
    add_two(element<Element>(partials[0], first), element<Element>(partials[1], first), tile.data(), length);
    for (const std::byte* partial : partials.subspan(2)) add_one(element<Element>(partial, first), tile.data(), length);
    if (streams_past_cache)
      copy_past_caches(tile.data(), length * std::int64_t{sizeof(Element)}, result + first);
    else
      std::copy_n(tile.data(), length, result + first);
  }
  if (streams_past_cache) finish_past_caches();
}

#if defined(__x86_64__)
#define MC2_AVX2 "avx2,f16c"
bool has_avx2() noexcept { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"); }

[[gnu::target(MC2_AVX2)]] inline __m256 eight_at(const float* first) noexcept { return _mm256_loadu_ps(first); }

[[gnu::target(MC2_AVX2)]] inline __m256 eight_at(const F16* first) noexcept {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first)));
}

[[gnu::target(MC2_AVX2)]] inline __m256 eight_at(const Bf16* first) noexcept {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/// Rounds to F16. The CPU's instruction gives the same as to_f16().
[[gnu::target(MC2_AVX2)]] inline __m128i rounded(__m256 sum, F16 /*to*/) noexcept {
  return _mm256_cvtps_ph(sum, _MM_FROUND_TO_NEAREST_INT);
}

/// Rounds to Bf16 as to_bf16() does.
[[gnu::target(MC2_AVX2)]] inline __m128i rounded(__m256 sum, Bf16 /*to*/) noexcept {
  const __m256i bits = _mm256_castps_si256(sum);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i nearest = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(sum, sum, _CMP_UNORD_Q));
  const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(nearest, quiet, is_nan), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
}

[[gnu::target(MC2_AVX2)]] inline void put(__m256 sum, float* first) noexcept { _mm256_storeu_ps(first, sum); }

template <typename Short>
[[gnu::target(MC2_AVX2)]] inline void put(__m256 sum, Short* first) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(first), rounded(sum, Short{}));
}

/// Sums as many elements as fill whole vectors, and returns how many.
template <typename From, typename To>
[[gnu::target(MC2_AVX2)]] std::int64_t sum_avx2(std::span<const std::byte* const> partials, To* result,
                                                std::int64_t count) noexcept {
  constexpr std::int64_t kVector = 8;
  std::int64_t i = 0;
  for (; i + kVector <= count; i += kVector) {
    __m256 sum = eight_at(element<From>(partials[0], i));
    for (const std::byte* partial : partials.subspan(1)) sum = _mm256_add_ps(sum, eight_at(element<From>(partial, i)));
    put(sum, result + i);
  }
  return i;
}

#define MC2_AVX512 "avx512f,avx512bw,avx512vl"
bool has_avx512() noexcept { return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"); }

constexpr __mmask16 kAll = 0xFFFF; // masked forms are used because GCC warns that the others leave values undefined

[[gnu::target(MC2_AVX512)]] inline __m512 sixteen_at(const float* first) noexcept {
  return _mm512_maskz_loadu_ps(kAll, first);
}

[[gnu::target(MC2_AVX512)]] inline __m512 sixteen_at(const F16* first) noexcept {
  return _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first)));
}

[[gnu::target(MC2_AVX512)]] inline __m512 sixteen_at(const Bf16* first) noexcept {
  const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first)));
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, wide, 16));
}

[[gnu::target(MC2_AVX512)]] inline __m256i rounded(__m512 sum, F16 /*to*/) noexcept {
  return _mm512_maskz_cvtps_ph(kAll, sum, _MM_FROUND_TO_NEAREST_INT);
}

/// Rounds to Bf16 as to_bf16() does. The CPU's own instruction is not used, because it turns subnormal numbers into 0.
[[gnu::target(MC2_AVX512)]] inline __m256i rounded(__m512 sum, Bf16 /*to*/) noexcept {
  const __m512i bits = _mm512_castps_si512(sum);
  const __m512i odd = _mm512_and_si512(_mm512_maskz_srli_epi32(kAll, bits, 16), _mm512_set1_epi32(1));
  const __m512i nearest = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q);
  const __m512i either = _mm512_mask_or_epi32(nearest, is_nan, bits, _mm512_set1_epi32(0x00400000));
  return _mm512_maskz_cvtepi32_epi16(kAll, _mm512_maskz_srli_epi32(kAll, either, 16));
}

[[gnu::target(MC2_AVX512)]] inline void put(__m512 sum, float* first) noexcept { _mm512_storeu_ps(first, sum); }

template <typename Short>
[[gnu::target(MC2_AVX512)]] inline void put(__m512 sum, Short* first) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(first), rounded(sum, Short{}));
}

/// As sum_avx2(), with vectors of 16 elements.
template <typename From, typename To>
[[gnu::target(MC2_AVX512)]] std::int64_t sum_avx512(std::span<const std::byte* const> partials, To* result,
                                                    std::int64_t count) noexcept {
  constexpr std::int64_t kVector = 16;
  std::int64_t i = 0;
  for (; i + kVector <= count; i += kVector) {
    __m512 sum = sixteen_at(element<From>(partials[0], i));
    for (const std::byte* partial : partials.subspan(1))
      sum = _mm512_add_ps(sum, sixteen_at(element<From>(partial, i)));
    put(sum, result + i);
  }
  return i;
}
#endif

} // namespace

template <typename From, typename To>
void sum_short(std::span<const std::byte* const> partials, To* result, std::int64_t count, Vectors widest) noexcept {
  std::int64_t i = 0;
#if defined(__x86_64__)
  if (widest == Vectors::Avx512 && has_avx512())
    i = sum_avx512<From>(partials, result, count);
  else if (widest != Vectors::None && has_avx2())
    i = sum_avx2<From>(partials, result, count);
#endif
  for (; i < count; ++i) {
    float sum = load(*element<From>(partials[0], i));
    for (const std::byte* partial : partials.subspan(1)) sum += load(*element<From>(partial, i));
    store(sum, result[i]);
  }
}

template void sum_short<F16>(std::span<const std::byte* const>, F16*, std::int64_t, Vectors) noexcept;
template void sum_short<F16>(std::span<const std::byte* const>, float*, std::int64_t, Vectors) noexcept;
template void sum_short<float>(std::span<const std::byte* const>, F16*, std::int64_t, Vectors) noexcept;
template void sum_short<Bf16>(std::span<const std::byte* const>, Bf16*, std::int64_t, Vectors) noexcept;
template void sum_short<Bf16>(std::span<const std::byte* const>, float*, std::int64_t, Vectors) noexcept;
template void sum_short<float>(std::span<const std::byte* const>, Bf16*, std::int64_t, Vectors) noexcept;

void add_f32(const float* addend, float* sum, std::int64_t count) noexcept { add_one(addend, sum, count); }

void add_i8(const std::int8_t* addend, std::int8_t* sum, std::int64_t count) noexcept { add_one(addend, sum, count); }

void sum_i8(std::span<const std::byte* const> partials, std::int8_t* result, std::int64_t count) noexcept {
  sum_in_tiles(partials, result, count, false);
}

void sum_f32(std::span<const std::byte* const> partials, float* result, std::int64_t count,
             bool streams_past_cache) noexcept {
  sum_in_tiles(partials, result, count, streams_past_cache);
}

void copy_past_caches(const void* from, std::int64_t byte_count, void* to) noexcept {
  std::int64_t done = 0;
#if defined(__x86_64__)
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128i) == 0) {
    const std::int64_t vectors = byte_count / std::int64_t{sizeof(__m128i)};
    const auto* source = static_cast<const __m128i*>(from);
    for (std::int64_t i = 0; i < vectors; ++i)
      _mm_stream_si128(static_cast<__m128i*>(to) + i, _mm_loadu_si128(source + i));
    done = vectors * std::int64_t{sizeof(__m128i)};
  }
#endif
  std::memcpy(static_cast<std::byte*>(to) + done, static_cast<const std::byte*>(from) + done,
              static_cast<std::size_t>(byte_count - done));
}

void finish_past_caches() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

} // namespace mc2::executor::lanes
