#include "random_fill.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "bf16.hpp"
#include "f16.hpp"
#include "f8.hpp"
#include "parallel_for.hpp"

namespace mc2::executor {
namespace {

constexpr std::uint64_t kSplitMixStep = 0x9E3779B97F4A7C15ULL;

/// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
std::uint64_t next(std::uint64_t& state) {
  state += kSplitMixStep;
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

/// Fills chunks in parallel. The generator's state grows by a fixed step with every number, so that the state at the
/// start of each chunk is known.
template <typename Element, typename Convert>
void fill(std::span<std::byte> bytes, std::uint64_t seed, unsigned bit_count, Convert&& to_element) {
  constexpr std::size_t kChunkElements = std::size_t{1} << 20U;
  const std::size_t element_count = bytes.size() / sizeof(Element);
  const std::size_t chunk_count = (element_count + kChunkElements - 1) / kChunkElements;
  parallel_for(static_cast<std::int64_t>(chunk_count), [&](std::int64_t chunk) {
    const std::size_t first = static_cast<std::size_t>(chunk) * kChunkElements;
    std::uint64_t state = seed + first * kSplitMixStep;
    for (std::size_t i = first; i < std::min(first + kChunkElements, element_count); ++i) {
      const Element element = to_element(uniform(state, bit_count));
      std::memcpy(bytes.data() + i * sizeof element, &element, sizeof element);
    }
  });
}

} // namespace

void fill_random_bags(const planner::OpSpec& op, std::span<std::int64_t> offsets, std::span<std::int64_t> indices,
                      std::uint64_t seed) {
  const auto below = [&seed](std::int64_t limit) {
    return static_cast<std::int64_t>(next(seed) % static_cast<std::uint64_t>(limit));
  };
  offsets[0] = 0;
  std::int64_t partner_length = -1; // bags come in pairs that have 2 k rows together; -1: the next bag begins a pair
  for (std::size_t bag = 0; bag + 1 < offsets.size(); ++bag) {
    const bool is_last_alone = partner_length < 0 && bag + 2 == offsets.size();
    std::int64_t length = partner_length;
    if (partner_length < 0) length = is_last_alone ? op.k : below(2 * op.k + 1);
    partner_length = partner_length < 0 ? 2 * op.k - length : -1;
    offsets[bag + 1] = offsets[bag] + length;
  }
  for (std::int64_t& index : indices) index = below(op.tables->row_count);
}

void fill_random_choices(const planner::ChosenExperts& experts, std::span<std::int64_t> chosen, std::uint64_t seed) {
  const auto top_k = static_cast<std::size_t>(experts.top_k);
  for (std::size_t first = 0; first < chosen.size(); first += top_k) {
    for (std::size_t i = first; i < first + top_k; ++i) {
      const double share = static_cast<double>(next(seed) >> 11U) * 0x1p-53;
      auto expert = static_cast<std::int64_t>(share * share * static_cast<double>(experts.count));
      const auto before = chosen.subspan(first, i - first);
      while (std::ranges::find(before, expert) != before.end()) expert = (expert + 1) % experts.count;
      chosen[i] = expert;
    }
  }
}

void fill_random(planner::DType dtype, std::span<std::byte> bytes, std::uint64_t seed) {
  // The numbers have as many bits as the type's significand.
  switch (dtype) {
    case planner::DType::F32: return fill<float>(bytes, seed, 24, [](float value) { return value; });
    case planner::DType::F16: return fill<F16>(bytes, seed, 11, to_f16);
    case planner::DType::Bf16: return fill<Bf16>(bytes, seed, 8, to_bf16);
    case planner::DType::F8E4m3: return fill<F8E4m3>(bytes, seed, 4, to_f8e4m3);
    case planner::DType::I8:
      return fill<std::int8_t>(bytes, seed, 8, [](float value) { return static_cast<std::int8_t>(value * 128); });
  }
}

} // namespace mc2::executor
