#include "backends/host/combine.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "bf16.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::host {
namespace {

constexpr std::int64_t kTileElements = 1024; // the accumulators stay in the first-level cache

float load(float value) { return value; }
float load(Bf16 value) { return to_float(value); }
void store(float value, float& result) { result = value; }
void store(float value, Bf16& result) { result = to_bf16(value); }

template <typename Element>
const Element* elements(const std::byte* bytes) {
  return reinterpret_cast<const Element*>(bytes);
}

template <typename Element>
void sum_tile(std::span<const std::byte* const> partials, Element* result, std::int64_t first, std::int64_t count) {
  std::array<float, kTileElements> sums;
  const auto* own = elements<Element>(partials[0]) + first;
  for (std::int64_t i = 0; i < count; ++i) sums[static_cast<std::size_t>(i)] = load(own[i]);
  for (const std::byte* partial : partials.subspan(1)) {
    const auto* addend = elements<Element>(partial) + first;
    for (std::int64_t i = 0; i < count; ++i) sums[static_cast<std::size_t>(i)] += load(addend[i]);
  }
  for (std::int64_t i = 0; i < count; ++i) store(sums[static_cast<std::size_t>(i)], result[first + i]);
}

template <typename Element>
void sum_all(std::span<const std::byte* const> partials, std::byte* result, std::int64_t element_count) {
  auto* out = reinterpret_cast<Element*>(result);
  for (std::int64_t first = 0; first < element_count; first += kTileElements) {
    sum_tile<Element>(partials, out, first, std::min(kTileElements, element_count - first));
  }
}

} // namespace

void sum_in_rank_order(planner::DType dtype, std::span<const std::byte* const> partials, std::byte* result,
                       std::int64_t element_count) noexcept {
  switch (dtype) {
    case planner::DType::F32: return sum_all<float>(partials, result, element_count);
    case planner::DType::Bf16: return sum_all<Bf16>(partials, result, element_count);
    case planner::DType::F16: break;
  }
  MC2_CHECK(false, "a type that the host backend refuses reached the reduction");
}

void combine(const BlockExchange& block, std::span<const std::byte* const> pieces) noexcept {
  if (block.sum != nullptr) return sum_in_rank_order(block.dtype, pieces, block.sum, block.element_count);
  const auto copy = [&](int peer) {
    const auto index = static_cast<std::size_t>(peer);
    std::byte* const landing = block.pieces->landings[index];
    if (landing != nullptr) std::memcpy(landing, pieces[index], static_cast<std::size_t>(block.piece_bytes()));
  };
  const int world_size = static_cast<int>(pieces.size());
  for (int i = 0; i < world_size - 1; ++i) copy(peer_at(block.order, block.rank, world_size, i));
  copy(block.rank);
}

} // namespace mc2::executor::host
