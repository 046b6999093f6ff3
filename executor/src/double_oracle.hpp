#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mc2/executor/buffer.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor {

/// A row-major matrix read as doubles.
class MatrixReader {
 public:
  MatrixReader(planner::DType dtype, std::span<const std::byte> bytes, std::int64_t columns) noexcept
      : dtype_(dtype), bytes_(bytes), columns_(columns) {}

  /// `out` has one element per column.
  void read_row(std::int64_t row, std::span<double> out) const noexcept;
  [[nodiscard]] std::span<const std::byte> row_bytes(std::int64_t row) const noexcept;

 private:
  planner::DType dtype_;
  std::span<const std::byte> bytes_;
  std::int64_t columns_;
};

/// Half the distance between 1 and the next number of a type, 2^-precision: what one rounding changes at most.
[[nodiscard]] double unit_roundoff(planner::DType dtype) noexcept;
inline constexpr double kF32Roundoff = 0x1p-24;

/// What a row of C should be, and by how much each element may be off.
struct OracleRow {
  std::vector<double> expected;
  std::vector<double> allowed;
};

/// Sum over ranks of A_r B_r in double precision, one row at a time, with the bound that verify.hpp states.
class DoubleOracle {
 public:
  /// Reads B once for its column norms. The buffers must outlive *this.
  DoubleOracle(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

  /// Valid until the next call. Costs ranks * k * n multiply-adds.
  [[nodiscard]] const OracleRow& row(std::int64_t row);

 private:
  void add_rank(std::size_t rank, std::int64_t row);

  planner::OpSpec op_;
  std::vector<MatrixReader> a_, b_;               ///< by rank
  std::vector<std::vector<double>> column_norms_; ///< by rank: |b_rj|
  std::vector<double> a_row_, b_row_, product_;   ///< scratch
  std::vector<double> product_magnitude_;         ///< sum over ranks of |p_rij|
  OracleRow row_;
};

/// Sum over ranks of A_r (B_r x) for one vector x of +-1: a check of all of C for the price of a few of its rows.
class ProjectedOracle {
 public:
  ProjectedOracle(const planner::OpSpec& op, std::span<const RankBuffers> buffers, std::uint64_t seed);

  struct Check {
    double difference = 0; ///< |C x - sum over ranks of A (B x)| in this row
    double allowed = 0;    ///< root sum of squares of the elements' allowed errors, bounded from the norms of B
  };
  /// `c_row` is row `row` of C.
  [[nodiscard]] Check check(std::int64_t row, std::span<const double> c_row);

 private:
  struct RankProjection {
    MatrixReader a;
    std::vector<double> b_x;   ///< B x
    double frobenius_norm = 0; ///< of B
    double spectral_norm = 0;  ///< of B, estimated from below
  };

  planner::OpSpec op_;
  std::vector<double> x_;
  std::vector<RankProjection> ranks_;
  std::vector<double> a_row_; ///< scratch
};

} // namespace mc2::executor
