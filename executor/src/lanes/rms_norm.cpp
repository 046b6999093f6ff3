#include "lanes/rms_norm.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "element.hpp"
#include "lanes/summed_type.hpp"
#include "lanes/vector_width.hpp"

namespace mc2::executor::lanes {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Words = std::uint32_t __attribute__((vector_size(16)));
using HalfWords = std::uint16_t __attribute__((vector_size(8)));
constexpr std::int64_t kFloats = 4, kVectors = 4; ///< 16 sums side by side on every CPU, so that the order is the same

[[gnu::always_inline]] inline Floats load_floats(const float* from) noexcept {
  Floats values;
  std::memcpy(&values, from, sizeof values);
  return values;
}

[[gnu::always_inline]] inline Floats load_floats(const Bf16* from) noexcept {
  HalfWords upper;
  std::memcpy(&upper, from, sizeof upper);
  return reinterpret_cast<Floats>(__builtin_convertvector(upper, Words) << 16U);
}

template <typename Element>
[[gnu::always_inline]] inline float squares_of(const Element* tile, std::int64_t count) noexcept {
  Floats sums[kVectors] = {};
  std::int64_t i = 0;
  for (; i + kVectors * kFloats <= count; i += kVectors * kFloats) {
    for (std::int64_t at = 0; at < kVectors; ++at) {
      const Floats values = load_floats(tile + i + at * kFloats);
      sums[at] += values * values;
    }
  }
  float sum = 0;
  for (; i < count; ++i) sum += load(tile[i]) * load(tile[i]);
  const Floats all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (std::int64_t at = 0; at < kFloats; ++at) sum += all[at];
  return sum;
}

template <typename Element>
[[gnu::always_inline]] inline void scale(const Element* __restrict row, std::int64_t columns,
                                         const Element* __restrict weight, float factor,
                                         Element* __restrict normed) noexcept {
  for (std::int64_t i = 0; i < columns; ++i) store(load(row[i]) * factor * load(weight[i]), normed[i]);
}

// Defined in this file, because GCC exports the clones of a function with external linkage even if it is hidden.
MC2_EVERY_VECTOR_WIDTH void scale_widest(const float* row, std::int64_t columns, const float* weight, float factor,
                                         float* normed) noexcept {
  scale(row, columns, weight, factor, normed);
}

MC2_EVERY_VECTOR_WIDTH void scale_widest(const Bf16* row, std::int64_t columns, const Bf16* weight, float factor,
                                         Bf16* normed) noexcept {
  scale(row, columns, weight, factor, normed);
}

template <typename Element>
void norm_rows(const std::byte* rows, std::int64_t row_count, std::int64_t columns, const NormTarget& target) noexcept {
  const auto* row = reinterpret_cast<const Element*>(rows);
  const auto* weight = reinterpret_cast<const Element*>(target.weight);
  auto* normed = reinterpret_cast<Element*>(target.rows);
  for (std::int64_t i = 0; i < row_count; ++i, row += columns, normed += columns) {
    float squares = 0;
    for (std::int64_t first = 0; first < columns; first += kNormTile)
      squares += sum_of_squares(row + first, std::min(kNormTile, columns - first));
    scale_row(row, columns, weight, norm_factor(squares, columns, target.epsilon), normed);
  }
}

} // namespace

float sum_of_squares(const float* tile, std::int64_t count) noexcept { return squares_of(tile, count); }
float sum_of_squares(const Bf16* tile, std::int64_t count) noexcept { return squares_of(tile, count); }

float norm_factor(float square_sum, std::int64_t columns, float epsilon) noexcept {
  return 1.0F / std::sqrt(square_sum / static_cast<float>(columns) + epsilon);
}

void scale_row(const float* row, std::int64_t columns, const float* weight, float factor, float* normed) noexcept {
  scale_widest(row, columns, weight, factor, normed);
}

void scale_row(const Bf16* row, std::int64_t columns, const Bf16* weight, float factor, Bf16* normed) noexcept {
  scale_widest(row, columns, weight, factor, normed);
}

void rms_norm(planner::DType dtype, const std::byte* rows, std::int64_t row_count, std::int64_t columns,
              const NormTarget& target) noexcept {
  with_element_type(dtype, [&]<typename Element>(Element*) { norm_rows<Element>(rows, row_count, columns, target); });
}

} // namespace mc2::executor::lanes
