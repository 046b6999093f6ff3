#include "lanes/combine.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "element.hpp"
#include "lanes/summed_type.hpp"
#include "lanes/vector_sum.hpp"
#include "lanes/vector_width.hpp"

namespace mc2::executor::lanes {
namespace {

constexpr std::int64_t kTileElements = kNormTile; // the accumulators stay in the first-level cache

template <typename Element>
const Element* elements(const std::byte* bytes) {
  return reinterpret_cast<const Element*>(bytes);
}

/// The bias and residual of a run of elements; null: none.
template <typename Element>
struct RunAddends {
  const Element* bias = nullptr;
  const Element* residual = nullptr;

  [[nodiscard]] RunAddends from(std::int64_t index) const {
    return {bias == nullptr ? nullptr : bias + index, residual == nullptr ? nullptr : residual + index};
  }
};

/// result[i] = left[i] + right[i]. The arrays must not overlap.
template <typename Left, typename Right, typename Out>
[[gnu::always_inline]] inline void add(const Left* __restrict left, const Right* __restrict right,
                                       Out* __restrict result, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) store(load(left[i]) + load(right[i]), result[i]);
}

template <typename Element>
[[gnu::always_inline]] inline void add_to(Element* __restrict result, const Element* __restrict addend,
                                          std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) store(load(result[i]) + load(addend[i]), result[i]);
}

/// result[i] = left[i] + right[i] + last[i]. The arrays must not overlap.
template <typename Element>
[[gnu::always_inline]] inline void add(const Element* __restrict left, const Element* __restrict right,
                                       const Element* __restrict last, Element* __restrict result,
                                       std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) store(load(left[i]) + load(right[i]) + load(last[i]), result[i]);
}

/// Sums elements [first, first + count) of the partials, at most kTileElements. The result may be the first partial.
template <typename Element>
[[gnu::always_inline]] inline void sum_tile_of(std::span<const std::byte* const> partials,
                                               const RunAddends<Element>& addends, Element* result, std::int64_t first,
                                               std::int64_t count) noexcept {
  const std::size_t partial_count = partials.size();
  const std::size_t addend_count = partial_count + (addends.bias != nullptr) + (addends.residual != nullptr);
  const auto addend = [&](std::size_t index) {
    if (index < partial_count) return elements<Element>(partials[index]) + first;
    return index == partial_count && addends.bias != nullptr ? addends.bias : addends.residual;
  };
  const Element* const own = addend(0);
  if (addend_count == 2 && result == own) return add_to(result, addend(1), count);
  if (addend_count == 2) return add(own, addend(1), result, count);
  if (addend_count == 3 && result != own) return add(own, addend(1), addend(2), result, count);
  if (addend_count == 1) {
    for (std::int64_t i = 0; i < count; ++i) store(load(own[i]), result[i]);
    return;
  }
  alignas(64) std::array<float, kTileElements> tile;
  float* const sums = tile.data();
  add(own, addend(1), sums, count);
  for (std::size_t index = 2; index + 1 < addend_count; ++index) {
    const Element* __restrict next = addend(index);
    for (std::int64_t i = 0; i < count; ++i) sums[i] += load(next[i]);
  }
  add(sums, addend(addend_count - 1), result, count);
}

MC2_EVERY_VECTOR_WIDTH void sum_tile(std::span<const std::byte* const> partials, const RunAddends<float>& addends,
                                     float* result, std::int64_t first, std::int64_t count) noexcept {
  sum_tile_of(partials, addends, result, first, count);
}

void sum_tile(std::span<const std::byte* const> partials, const RunAddends<Bf16>& addends, Bf16* result,
              std::int64_t first, std::int64_t count) noexcept {
  std::array<const std::byte*, kMostPartials + 2> from; // NOLINT: the elements that are used are set below
  if (partials.size() > kMostPartials) return sum_tile_of(partials, addends, result, first, count);
  std::size_t size = 0;
  for (const std::byte* partial : partials) from[size++] = partial + first * std::int64_t{sizeof(Bf16)};
  for (const Bf16* addend : {addends.bias, addends.residual})
    if (addend != nullptr) from[size++] = reinterpret_cast<const std::byte*>(addend);
  sum_short<Bf16>(std::span(from).first(size), result, count);
}

/// Sums a run of elements. Returns the sum of the results' squares if `is_normed`, else 0.
template <typename Element>
float sum_run(std::span<const std::byte* const> partials, const RunAddends<Element>& addends, Element* result,
              std::int64_t first, std::int64_t count, bool is_normed = false) {
  float squares = 0;
  for (std::int64_t at = 0; at < count; at += kTileElements) {
    const std::int64_t length = std::min(kTileElements, count - at);
    sum_tile(partials, addends.from(at), result + at, first + at, length);
    if (is_normed) squares += sum_of_squares(result + at, length);
  }
  return squares;
}

template <typename Element>
void sum_all(std::span<const std::byte* const> partials, const SumTarget& target, std::int64_t element_count) {
  auto* out = reinterpret_cast<Element*>(target.first);
  auto* normed = reinterpret_cast<Element*>(target.norm.rows);
  const RunAddends<Element> addends{nullptr, elements<Element>(target.residual)};
  const bool is_normed = normed != nullptr;
  if (target.columns == target.row_stride && target.bias == nullptr && !is_normed) {
    sum_run(partials, addends, out, 0, element_count);
    return;
  }
  for (std::int64_t row = 0; row * target.columns < element_count; ++row, out += target.row_stride) {
    RunAddends<Element> of_row = addends.from(row * target.row_stride);
    of_row.bias = elements<Element>(target.bias);
    const float squares = sum_run(partials, of_row, out, row * target.columns, target.columns, is_normed);
    if (!is_normed) continue;
    scale_row(out, target.columns, elements<Element>(target.norm.weight),
              norm_factor(squares, target.columns, target.norm.epsilon), normed); // now, as the row is in the caches
    normed += target.columns;
  }
}

template <typename Element>
Element* elements(std::byte* bytes) {
  return reinterpret_cast<Element*>(bytes);
}

} // namespace

void widen(planner::DType dtype, const std::byte* own, float* out, std::int64_t element_count) noexcept {
  with_element_type(dtype, [&]<typename Element>(Element*) {
    const auto* from = elements<Element>(own);
    for (std::int64_t i = 0; i < element_count; ++i) out[i] = load(from[i]);
  });
}

void add_to_partial(planner::DType dtype, const float* partial, const std::byte* own, float* out,
                    std::int64_t element_count) noexcept {
  with_element_type(dtype, [&]<typename Element>(Element*) {
    const auto* from = elements<Element>(own);
    for (std::int64_t i = 0; i < element_count; ++i) out[i] = partial[i] + load(from[i]);
  });
}

void finish_sum(planner::DType dtype, const float* partial, const std::byte* own, std::byte* result,
                std::int64_t element_count) noexcept {
  with_element_type(dtype, [&]<typename Element>(Element*) {
    const auto* from = elements<Element>(own);
    auto* to = elements<Element>(result);
    for (std::int64_t i = 0; i < element_count; ++i) store(partial[i] + load(from[i]), to[i]);
  });
}

void sum_in_rank_order(planner::DType dtype, std::span<const std::byte* const> partials, const SumTarget& target,
                       std::int64_t element_count) noexcept {
  with_element_type(dtype, [&]<typename Element>(Element*) { sum_all<Element>(partials, target, element_count); });
}

void add_residuals(const BlockExchange& block) noexcept {
  for (std::size_t peer = 0; peer < block.pieces->landings.size(); ++peer) {
    if (block.pieces->residuals[peer] == nullptr) continue;
    const std::int64_t element_count = block.pieces->incoming_bytes[peer] / planner::size_bytes(block.dtype);
    if (element_count == 0) continue;
    const std::byte* const landed = block.pieces->landings[peer];
    const SumTarget target{.first = block.pieces->landings[peer],
                           .columns = element_count,
                           .row_stride = element_count,
                           .bias = nullptr,
                           .residual = block.pieces->residuals[peer]};
    sum_in_rank_order(block.dtype, {&landed, 1}, target, element_count);
  }
}

void copy_to_landing(const RowPitch& pitch, std::byte* landing, std::int64_t offset,
                     std::span<const std::byte> part) noexcept {
  if (pitch.is_dense()) {
    std::memcpy(landing + offset, part.data(), part.size());
    return;
  }
  while (!part.empty()) {
    const std::int64_t column = offset % pitch.row_bytes;
    const auto length = std::min(part.size(), static_cast<std::size_t>(pitch.row_bytes - column));
    std::memcpy(landing + offset / pitch.row_bytes * pitch.pitch_bytes + column, part.data(), length);
    part = part.subspan(length);
    offset += static_cast<std::int64_t>(length);
  }
}

void land(const BlockExchange& block, int rank, const std::byte* piece) noexcept {
  std::byte* const landing = block.pieces->landings[static_cast<std::size_t>(rank)];
  if (landing == nullptr) return;
  const auto bytes = static_cast<std::size_t>(block.pieces->incoming_bytes[static_cast<std::size_t>(rank)]);
  if (bytes > 0) copy_to_landing(block.landing, landing, 0, {piece, bytes});
}

void combine(const BlockExchange& block, std::span<const std::byte* const> pieces) noexcept {
  if (block.is_summed()) return sum_in_rank_order(block.dtype, pieces, block.sum, block.element_count);
  const auto copy = [&](int peer) { land(block, peer, pieces[static_cast<std::size_t>(peer)]); };
  const int world_size = static_cast<int>(pieces.size());
  for (int i = 0; i < world_size - 1; ++i) copy(peer_at(block.order, block.rank, world_size, i));
  copy(block.rank);
  add_residuals(block);
}

void sum_past_caches(planner::DType dtype, std::span<const std::byte* const> partials, const SumTarget& target,
                     std::int64_t element_count) noexcept {
  constexpr std::int64_t kFromElements = (std::int64_t{2} << 20U) / sizeof(float); // docs/mpi.md
  if (dtype != planner::DType::F32 || !target.is_plain() || partials.size() < 2 || element_count < kFromElements)
    return sum_in_rank_order(dtype, partials, target, element_count);
  sum_f32(partials, elements<float>(target.first), element_count, /*streams_past_cache=*/true);
}

void sum_partials(planner::DType dtype, std::span<const std::byte* const> partials, std::byte* result,
                  std::int64_t element_count) noexcept {
  switch (dtype) {
    case planner::DType::F32: return sum_f32(partials, elements<float>(result), element_count);
    case planner::DType::F16: return sum_short<F16>(partials, elements<F16>(result), element_count);
    case planner::DType::Bf16: return sum_short<Bf16>(partials, elements<Bf16>(result), element_count);
    case planner::DType::I8: return sum_i8(partials, elements<std::int8_t>(result), element_count);
    case planner::DType::F8E4m3: break;
  }
  MC2_CHECK(false, "a type that has no sum reached the reduction");
}

void sum_unrounded(planner::DType dtype, std::span<const std::byte* const> partials, std::byte* sum,
                   std::int64_t element_count) noexcept {
  if (dtype == planner::DType::F16) return sum_short<F16>(partials, elements<float>(sum), element_count);
  if (dtype == planner::DType::Bf16) return sum_short<Bf16>(partials, elements<float>(sum), element_count);
  sum_partials(dtype, partials, sum, element_count);
}

void sum_rounded(planner::DType dtype, std::span<const std::byte* const> sums, std::byte* result,
                 std::int64_t element_count) noexcept {
  if (dtype == planner::DType::F16) return sum_short<float>(sums, elements<F16>(result), element_count);
  if (dtype == planner::DType::Bf16) return sum_short<float>(sums, elements<Bf16>(result), element_count);
  sum_partials(dtype, sums, result, element_count);
}

void add_partial(planner::DType dtype, const std::byte* partial, std::byte* result,
                 std::int64_t element_count) noexcept {
  using planner::DType;
  if (dtype == DType::F32) return add_f32(elements<float>(partial), elements<float>(result), element_count);
  if (dtype == DType::I8) return add_i8(elements<std::int8_t>(partial), elements<std::int8_t>(result), element_count);
  sum_partials(dtype, std::array<const std::byte*, 2>{result, partial}, result, element_count);
}

} // namespace mc2::executor::lanes
