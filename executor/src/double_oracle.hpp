#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "choices.hpp"
#include "mc2/executor/buffer.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/units.hpp"
#include "row_splits.hpp"

namespace mc2::executor {

/// A row-major matrix read as doubles.
class MatrixReader {
 public:
  MatrixReader(planner::DType dtype, std::span<const std::byte> bytes, std::int64_t columns) noexcept
      : dtype_(dtype), bytes_(bytes), columns_(columns) {}

  /// Reads a row; `out` has one element per column.
  void read_row(std::int64_t row, std::span<double> out) const noexcept { read_part(row, 0, out); }
  /// Reads as many columns as `out` has elements, from `first_column` on.
  void read_part(std::int64_t row, std::int64_t first_column, std::span<double> out) const noexcept;
  [[nodiscard]] std::span<const std::byte> row_bytes(std::int64_t row) const noexcept;

 private:
  planner::DType dtype_;
  std::span<const std::byte> bytes_;
  std::int64_t columns_;
};

/// The unit roundoff of a type, 2^-precision: half the distance between 1 and the next number. One rounding changes a
/// number at most by this factor.
[[nodiscard]] double unit_roundoff(planner::DType dtype) noexcept;
inline constexpr double kF32Roundoff = 0x1p-24;
/// What one rounding may change a number by in addition, however small the number is: half the type's smallest number.
/// 0 for types other than f16, where ordinary numbers do not get that small.
[[nodiscard]] constexpr double half_smallest(planner::DType dtype) noexcept {
  return dtype == planner::DType::F16 ? 0x1p-25 : 0;
}

/// One row of one rank's C.
struct ResultRow {
  std::size_t rank = 0;
  std::int64_t row = 0;
};

/// The expected elements of a row of C, and the allowed error of each.
struct OracleRow {
  std::vector<double> expected;
  std::vector<double> allowed;
};

/// One product in the sum that makes a row of C: a row of a rank's A times the B of one of a rank's experts.
struct Term {
  std::size_t a_rank = 0;
  std::int64_t a_row = 0;
  std::size_t b_rank = 0;
  std::size_t expert = 0;
  std::int64_t product_row = 0; ///< row of the rank's product, as it lies between the lanes
  double weight = 1;            ///< factor of the product in the sum
  /// The index of its B among the Bs of all ranks.
  [[nodiscard]] std::size_t b_of(const planner::OpSpec& op) const noexcept {
    return b_rank * static_cast<std::size_t>(planner::matrix_count(op)) + expert;
  }
};

/// The terms of a row of C if no row chooses experts. With Products, which adds the choices, this is the definition of
/// every kind.
[[nodiscard]] std::vector<Term> terms_of(const planner::OpSpec& op, const RowSplits& splits, const ResultRow& at);

/// How many products add up to a row of C: all ranks' products where the collective sums, else 1.
[[nodiscard]] int term_count(const planner::OpSpec& op) noexcept;

/// The products that add up to a row of C, with the experts that rows choose.
class Products {
 public:
  /// The buffers must outlive *this.
  Products(const planner::OpSpec& op, std::span<const RankBuffers> buffers);
  [[nodiscard]] std::vector<Term> of(const ResultRow& at) const;

 private:
  planner::OpSpec op_;
  RowSplits splits_;
  std::vector<ChoiceReader> choices_; ///< by rank; empty for kinds without choices
};

/// The scales of A and B; 1 for types without scales.
class Scales {
 public:
  Scales(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

  [[nodiscard]] double of_a(const Term& term) const;
  /// @param b  Term::b_of()
  [[nodiscard]] double of_b(std::size_t b, std::size_t column) const;

 private:
  bool a_is_given_to_receivers_;
  std::vector<std::vector<double>> a_; ///< by rank
  std::vector<std::vector<double>> b_; ///< by B
};

/// The bias and the residual of rows of C; zeros where the operator has none.
class Addends {
 public:
  /// The buffers must outlive *this.
  Addends(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

  /// The bias of the expert or rank that multiplies the row. In matmul_all_to_all that is the sender.
  [[nodiscard]] std::vector<double> bias_at(const ResultRow& at) const;
  [[nodiscard]] std::vector<double> residual_at(const ResultRow& at) const;

 private:
  planner::OpSpec op_;
  Products products_;
  std::vector<std::vector<double>> bias_; ///< by B; by rank in kinds that sum
  std::vector<MatrixReader> residual_;    ///< by rank
};

/// Rows of C in double precision with the bound that verify.hpp states. Uses several threads; the numbers do not depend
/// on how many.
class DoubleOracle {
 public:
  /// Reads B once for its column norms. The buffers must outlive *this.
  DoubleOracle(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

  /// The wanted rows, in their order. Reads B once for all of them; a row costs terms * k * n multiply-adds.
  [[nodiscard]] std::vector<OracleRow> rows(std::span<const ResultRow> wanted) const;
  /// The Frobenius norm of B with this index (Term::b_of()).
  [[nodiscard]] double frobenius_norm(std::size_t b) const;

 private:
  /// A row of A that a rank's B is multiplied with.
  struct Factor {
    std::size_t wanted = 0; ///< index of the row of C that the product is added to
    std::vector<double> a;
    double weight = 1; ///< factor of the product in the sum
    double scale = 1;  ///< weight times the scale of A
    double norm = 0;   ///< 2-norm of a, times |scale|
  };
  using Factors = std::vector<std::vector<Factor>>; ///< by B

  [[nodiscard]] Factors factors_of(std::span<const ResultRow> wanted) const;
  void add_tile(const Factors& factors, std::int64_t first_column, std::span<OracleRow> rows) const;

  void finish_row(const ResultRow& at, OracleRow& row) const;

  planner::OpSpec op_;
  Products products_;
  Scales scales_;
  Addends addends_;
  std::vector<MatrixReader> a_;                   ///< by rank
  std::vector<MatrixReader> b_;                   ///< by B
  std::vector<std::vector<double>> column_norms_; ///< by B: 2-norm of each column, times its scale
};

/// C x for one vector x of +-1: a check of all rows of C for the price of a few.
class ProjectedOracle {
 public:
  /// Uses several threads. `oracle` must be made from the same buffers.
  ProjectedOracle(const planner::OpSpec& op, std::span<const RankBuffers> buffers, const DoubleOracle& oracle,
                  std::uint64_t seed);

  struct Check {
    double difference = 0; ///< |c x - sum over terms of a (B x)|
    double allowed = 0;    ///< root of the sum of squares of the elements' allowed errors, bounded by norms of B
  };
  /// `c_row` is the row of C at `at`. Safe to share.
  [[nodiscard]] Check check(const ResultRow& at, std::span<const double> c_row) const;

 private:
  struct Projection {
    std::vector<double> b_x;   ///< B x
    double frobenius_norm = 0; ///< of B, scaled
    double spectral_norm = 0;  ///< of B, scaled; an estimate from below
  };

  planner::OpSpec op_;
  Products products_;
  Scales scales_;
  Addends addends_;
  std::vector<double> x_;
  std::vector<MatrixReader> a_; ///< by rank
  std::vector<Projection> b_;   ///< by B
};

} // namespace mc2::executor
