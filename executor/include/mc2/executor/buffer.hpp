#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

struct MatrixShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  [[nodiscard]] std::int64_t element_count() const noexcept { return rows * columns; }
  bool operator==(const MatrixShape&) const = default;
};

/// What one rank brings and gets.
struct OperandShapes {
  MatrixShape a; ///< [m, k]; all_gather_matmul: the rank's shard [m / ranks, k]. all_to_all_matmul: rows
                 ///< [q m/ranks, (q+1) m/ranks) are for rank q
  MatrixShape b; ///< [k, n], another one on every rank
  MatrixShape c; ///< [m, n]; matmul_reduce_scatter: the rank's shard [m / ranks, n]. matmul_all_to_all: what ranks
                 ///< 0, 1, ... sent, one below the other, m / ranks rows each
  bool operator==(const OperandShapes&) const = default;
};

/// The shapes of a legal operator's matrices.
[[nodiscard]] OperandShapes operand_shapes(const planner::OpSpec& op) noexcept;

/// The caller's matrices of one rank, row-major and densely packed in the operator's element type, as
/// operand_shapes() says, in memory of the rank's device. Never owned: they must outlive every `Prepared` made from
/// them. C must not overlap A, B or another rank's C.
struct RankBuffers {
  std::span<const std::byte> a;
  std::span<const std::byte> b; ///< read while preparing at the latest where a backend packs weights
  std::span<std::byte> c;       ///< written by every run
};

} // namespace mc2::executor
