#include "lanes/rms_norm.hpp"

#include <cmath>
#include <cstring>

#include "element.hpp"
#include "lanes/vector_width.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::lanes {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Words = std::uint32_t __attribute__((vector_size(16)));
using HalfWords = std::uint16_t __attribute__((vector_size(8)));
constexpr std::int64_t kFloats = 4, kVectors = 4; ///< sums side by side: the same on every CPU, in one order

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
[[gnu::always_inline]] inline float sum_of_squares(const Element* row, std::int64_t count) noexcept {
  Floats sums[kVectors] = {};
  std::int64_t i = 0;
  for (; i + kVectors * kFloats <= count; i += kVectors * kFloats) {
    for (std::int64_t at = 0; at < kVectors; ++at) {
      const Floats values = load_floats(row + i + at * kFloats);
      sums[at] += values * values;
    }
  }
  float sum = 0;
  for (; i < count; ++i) sum += load(row[i]) * load(row[i]);
  const Floats all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (std::int64_t at = 0; at < kFloats; ++at) sum += all[at];
  return sum;
}

template <typename Element>
[[gnu::always_inline]] inline void normalise(const Element* __restrict row, std::int64_t count,
                                             const Element* __restrict weight, float epsilon,
                                             Element* __restrict normed) noexcept {
  const float factor = 1.0F / std::sqrt(sum_of_squares(row, count) / static_cast<float>(count) + epsilon);
  for (std::int64_t i = 0; i < count; ++i) store(load(row[i]) * factor * load(weight[i]), normed[i]);
}

MC2_EVERY_VECTOR_WIDTH void normalise_f32(const float* row, std::int64_t count, const float* weight, float epsilon,
                                          float* normed) noexcept {
  normalise(row, count, weight, epsilon, normed);
}

MC2_EVERY_VECTOR_WIDTH void normalise_bf16(const Bf16* row, std::int64_t count, const Bf16* weight, float epsilon,
                                           Bf16* normed) noexcept {
  normalise(row, count, weight, epsilon, normed);
}

template <typename Element, typename Normalise>
void for_each_row(const std::byte* rows, std::int64_t row_count, std::int64_t columns, const NormTarget& target,
                  const Normalise& normalise_row) noexcept {
  const auto* row = reinterpret_cast<const Element*>(rows);
  const auto* weight = reinterpret_cast<const Element*>(target.weight);
  auto* normed = reinterpret_cast<Element*>(target.rows);
  for (std::int64_t i = 0; i < row_count; ++i, row += columns, normed += columns)
    normalise_row(row, columns, weight, target.epsilon, normed);
}

} // namespace

void rms_norm(planner::DType dtype, const std::byte* rows, std::int64_t row_count, std::int64_t columns,
              const NormTarget& target) noexcept {
  if (dtype == planner::DType::F32) return for_each_row<float>(rows, row_count, columns, target, normalise_f32);
  MC2_CHECK(dtype == planner::DType::Bf16, "a type that no sum on the host has reached the norm");
  for_each_row<Bf16>(rows, row_count, columns, target, normalise_bf16);
}

} // namespace mc2::executor::lanes
