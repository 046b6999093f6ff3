#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lanes/block_exchange.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::lanes {

/// Element i of the target = partials[0][i] + partials[1][i] + ... + bias + residual in this order, accumulated in
/// f32 and rounded once to `dtype`, and each row is normalised after that where the target says so: every rank that
/// sums the same partials gets the same bits. `dtype` is F32 or Bf16; the target overlaps no partial but a single one
/// that it equals, and `element_count` is a multiple of its columns.
void sum_in_rank_order(planner::DType dtype, std::span<const std::byte* const> partials, const SumTarget& target,
                       std::int64_t element_count) noexcept;

/// result[i] = partials[0][i] + partials[1][i] + ... in this order: f32, bf16 and f16 accumulated in f32 and rounded
/// once, i8 modulo 256. At least 2 partials, at most kMostPartials; the result may be one of them.
inline constexpr std::size_t kMostPartials = 64;
void sum_partials(planner::DType dtype, std::span<const std::byte* const> partials, std::byte* result,
                  std::int64_t element_count) noexcept;

/// A sum in two steps: of some partials, not rounded - f32 of floats, which short ones take more room for -, and of
/// such sums, rounded once. At least 2 of each, at most kMostPartials; what is made overlaps nothing.
[[nodiscard]] constexpr std::size_t unrounded_bytes(planner::DType dtype) noexcept {
  return dtype == planner::DType::I8 ? sizeof(std::int8_t) : sizeof(float);
}
void sum_unrounded(planner::DType dtype, std::span<const std::byte* const> partials, std::byte* sum,
                   std::int64_t element_count) noexcept;
void sum_rounded(planner::DType dtype, std::span<const std::byte* const> sums, std::byte* result,
                 std::int64_t element_count) noexcept;

/// result[i] = result[i] + partial[i], of the same types, likewise; they do not overlap.
void add_partial(planner::DType dtype, const std::byte* partial, std::byte* result,
                 std::int64_t element_count) noexcept;

/// Sums that are passed on: out[i] = own[i]; partial[i] + own[i]; the same, rounded to `dtype`. f32 or bf16.
void widen(planner::DType dtype, const std::byte* own, float* out, std::int64_t element_count) noexcept;
void add_to_partial(planner::DType dtype, const float* partial, const std::byte* own, float* out,
                    std::int64_t element_count) noexcept;
void finish_sum(planner::DType dtype, const float* partial, const std::byte* own, std::byte* result,
                std::int64_t element_count) noexcept;

/// Copies a part of a piece, `offset` bytes into it, to where the piece lands, row by row where that is not dense.
void copy_to_landing(const RowPitch& pitch, std::byte* landing, std::int64_t offset,
                     std::span<const std::byte> part) noexcept;

/// Copies a rank's piece to where it lands, row by row where the landing is not dense; nowhere if it has no landing.
void land(const BlockExchange& block, int rank, const std::byte* piece) noexcept;
/// Part of a dense target without bias and residual, which is all that variants other than "direct" are given.
[[nodiscard]] inline SumTarget dense_target(const BlockExchange& block, std::int64_t offset_bytes,
                                            std::int64_t element_count) noexcept {
  return {.first = block.sum.first + offset_bytes, .columns = element_count, .row_stride = element_count};
}

/// Adds the residuals to the pieces that have landed, in f32; nothing where there are none.
void add_residuals(const BlockExchange& block) noexcept;

/// Sums the pieces, given by rank, into the exchange's `sum`, or copies those that have a landing there, the
/// peers' in the exchange's order and the own last, and adds their residuals.
void combine(const BlockExchange& block, std::span<const std::byte* const> pieces) noexcept;

} // namespace mc2::executor::lanes
