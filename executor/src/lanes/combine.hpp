#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lanes/block_exchange.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::lanes {

/// Element i of the target = partials[0][i] + partials[1][i] + ... + bias + residual in this order, accumulated in f32
/// and rounded once to `dtype`; if the target has a norm, each row is normalised after that. Every rank that sums the
/// same partials gets the same bits. `dtype` is F32 or Bf16. The target may be equal to one partial and must not
/// overlap any other. `element_count` must be a multiple of the target's columns.
void sum_in_rank_order(planner::DType dtype, std::span<const std::byte* const> partials, const SumTarget& target,
                       std::int64_t element_count) noexcept;

/// As sum_in_rank_order(), for a target that is not read soon: a large sum of f32 is written past the caches.
void sum_past_caches(planner::DType dtype, std::span<const std::byte* const> partials, const SumTarget& target,
                     std::int64_t element_count) noexcept;

/// result[i] = partials[0][i] + partials[1][i] + ... in this order. f32, bf16 and f16 are accumulated in f32 and
/// rounded once; i8 wraps modulo 256. There are 2 to kMostPartials partials; the result may be one of them.
inline constexpr std::size_t kMostPartials = 64;
void sum_partials(planner::DType dtype, std::span<const std::byte* const> partials, std::byte* result,
                  std::int64_t element_count) noexcept;

/// A sum in two steps: sum_unrounded() sums partials without rounding, to f32 for all floats, and sum_rounded() sums
/// such sums and rounds once. Each takes 2 to kMostPartials addends; the result must not overlap any of them.
void sum_unrounded(planner::DType dtype, std::span<const std::byte* const> partials, std::byte* sum,
                   std::int64_t element_count) noexcept;
void sum_rounded(planner::DType dtype, std::span<const std::byte* const> sums, std::byte* result,
                 std::int64_t element_count) noexcept;

/// result[i] = result[i] + partial[i], for the same types and rounded in the same way. The two must not overlap.
void add_partial(planner::DType dtype, const std::byte* partial, std::byte* result,
                 std::int64_t element_count) noexcept;

/// Steps of a sum in f32 that passes from rank to rank: widen() starts it, out[i] = own[i]; add_to_partial() continues
/// it, out[i] = partial[i] + own[i]; finish_sum() does the same and rounds to `dtype`, F32 or Bf16.
void widen(planner::DType dtype, const std::byte* own, float* out, std::int64_t element_count) noexcept;
void add_to_partial(planner::DType dtype, const float* partial, const std::byte* own, float* out,
                    std::int64_t element_count) noexcept;
void finish_sum(planner::DType dtype, const float* partial, const std::byte* own, std::byte* result,
                std::int64_t element_count) noexcept;

/// Copies a part of a piece, which begins `offset` bytes into the piece, to the piece's landing; row by row if the
/// landing is not dense.
void copy_to_landing(const RowPitch& pitch, std::byte* landing, std::int64_t offset,
                     std::span<const std::byte> part) noexcept;

/// Copies a rank's piece to its landing, row by row if the landing is not dense. Does nothing without a landing.
void land(const BlockExchange& block, int rank, const std::byte* piece) noexcept;
/// A part of a dense target without bias and residual. Variants other than "direct" only get such targets.
[[nodiscard]] inline SumTarget dense_target(const BlockExchange& block, std::int64_t offset_bytes,
                                            std::int64_t element_count) noexcept {
  return {.first = block.sum.first + offset_bytes, .columns = element_count, .row_stride = element_count};
}

/// Adds the residuals to the pieces that have landed, in f32. Does nothing without residuals.
void add_residuals(const BlockExchange& block) noexcept;

/// Combines the pieces, given by rank. Where pieces are summed, writes their sum to the exchange's `sum`. Else copies
/// each to its landing, the peers' in the exchange's order and the rank's own last, and adds the residuals.
void combine(const BlockExchange& block, std::span<const std::byte* const> pieces) noexcept;

} // namespace mc2::executor::lanes
