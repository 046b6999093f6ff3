#include "random_fill.hpp"

#include <cstring>

#include "bf16.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor {
namespace {

/// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
std::uint64_t next(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15ULL;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBULL;
  return mixed ^ (mixed >> 31U);
}

/// A multiple of 2^(1-bit_count) in [-1, 1).
float uniform(std::uint64_t& state, unsigned bit_count) {
  const auto half_range = static_cast<std::int32_t>(1U << (bit_count - 1U));
  const auto drawn = static_cast<std::int32_t>(next(state) >> (64U - bit_count));
  return static_cast<float>(drawn - half_range) / static_cast<float>(half_range);
}

template <typename Element, typename Draw>
void fill(std::span<std::byte> bytes, Draw&& draw) {
  for (std::size_t at = 0; at + sizeof(Element) <= bytes.size(); at += sizeof(Element)) {
    const Element element = draw();
    std::memcpy(bytes.data() + at, &element, sizeof element);
  }
}

} // namespace

void fill_random(planner::DType dtype, std::span<std::byte> bytes, std::uint64_t seed) noexcept {
  constexpr unsigned kF32Bits = 24; // as many as the significand holds
  constexpr unsigned kBf16Bits = 8;
  std::uint64_t state = seed;
  switch (dtype) {
    case planner::DType::F32: return fill<float>(bytes, [&] { return uniform(state, kF32Bits); });
    case planner::DType::Bf16: return fill<Bf16>(bytes, [&] { return to_bf16(uniform(state, kBf16Bits)); });
    case planner::DType::F16: break;
  }
  MC2_CHECK(false, "random numbers asked for in a type that no backend runs");
}

} // namespace mc2::executor
