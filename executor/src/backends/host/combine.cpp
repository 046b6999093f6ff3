#include "backends/host/combine.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "element.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::host {
namespace {

constexpr std::int64_t kTileElements = 1024; // the accumulators stay in the first-level cache

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

void land(const BlockExchange& block, int rank, const std::byte* piece) noexcept {
  std::byte* landing = block.pieces->landings[static_cast<std::size_t>(rank)];
  if (landing == nullptr) return;
  const std::int64_t bytes = block.piece_bytes();
  if (block.landing.is_dense()) {
    std::memcpy(landing, piece, static_cast<std::size_t>(bytes));
    return;
  }
  for (std::int64_t at = 0; at < bytes; at += block.landing.row_bytes, landing += block.landing.pitch_bytes) {
    std::memcpy(landing, piece + at, static_cast<std::size_t>(block.landing.row_bytes));
  }
}

void combine(const BlockExchange& block, std::span<const std::byte* const> pieces) noexcept {
  if (block.sum != nullptr) return sum_in_rank_order(block.dtype, pieces, block.sum, block.element_count);
  const auto copy = [&](int peer) { land(block, peer, pieces[static_cast<std::size_t>(peer)]); };
  const int world_size = static_cast<int>(pieces.size());
  for (int i = 0; i < world_size - 1; ++i) copy(peer_at(block.order, block.rank, world_size, i));
  copy(block.rank);
}

} // namespace mc2::executor::host
