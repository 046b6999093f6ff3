#include "double_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "bf16.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor {
namespace {

/// Standard deviations of the rounding errors' random walk that the bounds allow.
constexpr double kConfidence = 4;
/// Room for the products of two roundings that the first-order bound of short types leaves out.
constexpr double kSecondOrder = 1.01;

double dot(std::span<const double> left, std::span<const double> right) {
  return std::inner_product(left.begin(), left.end(), right.begin(), 0.0);
}

double norm(std::span<const double> vector) { return std::sqrt(dot(vector, vector)); }

/// Rounding of the sums in f32, per unit of sum_r |a_ri| |b_rj|.
double accumulation_roundoff(const planner::OpSpec& op) {
  return kConfidence * kF32Roundoff * (std::sqrt(static_cast<double>(op.k)) + op.world_size);
}

bool rounds_to_short_type(const planner::OpSpec& op) { return op.dtype != planner::DType::F32; }

/// B times `x`, and `x` times B, with B read row by row.
std::vector<double> multiply(const MatrixReader& b, std::int64_t rows, std::span<const double> x) {
  std::vector<double> row(x.size());
  std::vector<double> result(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) {
    b.read_row(i, row);
    result[static_cast<std::size_t>(i)] = dot(row, x);
  }
  return result;
}

std::vector<double> multiply_transposed(const MatrixReader& b, std::span<const double> x, std::int64_t columns) {
  std::vector<double> row(static_cast<std::size_t>(columns));
  std::vector<double> result(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < x.size(); ++i) {
    b.read_row(static_cast<std::int64_t>(i), row);
    for (std::size_t j = 0; j < row.size(); ++j) result[j] += x[i] * row[j];
  }
  return result;
}

/// Largest singular value from a few power iterations, which approach it from below: kConfidence covers the rest.
double estimate_spectral_norm(const MatrixReader& b, std::int64_t rows, std::vector<double> v) {
  constexpr int kIterations = 6;
  double estimate = 0;
  for (int i = 0; i < kIterations; ++i) {
    const double length = norm(v);
    if (length == 0) return 0;
    for (double& element : v) element /= length;
    const auto w = multiply(b, rows, v);
    estimate = norm(w);
    v = multiply_transposed(b, w, static_cast<std::int64_t>(v.size()));
  }
  return estimate;
}

double frobenius_norm(const MatrixReader& b, std::int64_t rows, std::int64_t columns) {
  std::vector<double> row(static_cast<std::size_t>(columns));
  double squares = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    b.read_row(i, row);
    squares += dot(row, row);
  }
  return std::sqrt(squares);
}

template <typename Element, typename Convert>
void convert(std::span<const std::byte> bytes, std::span<double> out, Convert&& to_double) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof element, sizeof element);
    out[i] = to_double(element);
  }
}

} // namespace

double unit_roundoff(planner::DType dtype) noexcept {
  switch (dtype) {
    case planner::DType::F32: return kF32Roundoff;
    case planner::DType::F16: return 0x1p-11;
    case planner::DType::Bf16: return 0x1p-8;
  }
  return 1;
}

std::span<const std::byte> MatrixReader::row_bytes(std::int64_t row) const noexcept {
  const std::int64_t bytes = columns_ * planner::size_bytes(dtype_);
  return bytes_.subspan(static_cast<std::size_t>(row * bytes), static_cast<std::size_t>(bytes));
}

void MatrixReader::read_row(std::int64_t row, std::span<double> out) const noexcept {
  switch (dtype_) {
    case planner::DType::F32: return convert<float>(row_bytes(row), out, [](float value) { return value; });
    case planner::DType::Bf16: return convert<Bf16>(row_bytes(row), out, [](Bf16 value) { return to_float(value); });
    case planner::DType::F16: break;
  }
  MC2_CHECK(false, "a type that verification refuses was read");
}

DoubleOracle::DoubleOracle(const planner::OpSpec& op, std::span<const RankBuffers> buffers)
    : op_(op), a_row_(static_cast<std::size_t>(op.k)), b_row_(static_cast<std::size_t>(op.n)) {
  for (const RankBuffers& rank : buffers) {
    a_.emplace_back(op.dtype, rank.a, op.k);
    b_.emplace_back(op.dtype, rank.b, op.n);
    auto& norms = column_norms_.emplace_back(static_cast<std::size_t>(op.n));
    for (std::int64_t i = 0; i < op.k; ++i) {
      b_.back().read_row(i, b_row_);
      for (std::size_t j = 0; j < norms.size(); ++j) norms[j] += b_row_[j] * b_row_[j];
    }
    for (double& element : norms) element = std::sqrt(element);
  }
}

const OracleRow& DoubleOracle::row(std::int64_t row) {
  const auto columns = static_cast<std::size_t>(op_.n);
  row_.expected.assign(columns, 0.0);
  row_.allowed.assign(columns, 0.0);
  product_magnitude_.assign(columns, 0.0);
  for (std::size_t rank = 0; rank < a_.size(); ++rank) add_rank(rank, row);
  if (rounds_to_short_type(op_)) {
    const double roundoff = kSecondOrder * unit_roundoff(op_.dtype);
    for (std::size_t j = 0; j < columns; ++j) {
      row_.allowed[j] += roundoff * (product_magnitude_[j] + std::abs(row_.expected[j]));
    }
  }
  return row_;
}

void DoubleOracle::add_rank(std::size_t rank, std::int64_t row) {
  a_[rank].read_row(row, a_row_);
  product_.assign(row_.expected.size(), 0.0);
  for (std::size_t i = 0; i < a_row_.size(); ++i) {
    b_[rank].read_row(static_cast<std::int64_t>(i), b_row_);
    for (std::size_t j = 0; j < product_.size(); ++j) product_[j] += a_row_[i] * b_row_[j];
  }
  const double scale = accumulation_roundoff(op_) * norm(a_row_);
  for (std::size_t j = 0; j < product_.size(); ++j) {
    row_.expected[j] += product_[j];
    row_.allowed[j] += scale * column_norms_[rank][j];
    product_magnitude_[j] += std::abs(product_[j]);
  }
}

ProjectedOracle::ProjectedOracle(const planner::OpSpec& op, std::span<const RankBuffers> buffers, std::uint64_t seed)
    : op_(op), x_(static_cast<std::size_t>(op.n)), a_row_(static_cast<std::size_t>(op.k)) {
  std::mt19937_64 random(seed);
  for (double& element : x_) element = (random() & 1U) != 0 ? 1.0 : -1.0;
  for (const RankBuffers& rank : buffers) {
    const MatrixReader b(op.dtype, rank.b, op.n);
    ranks_.push_back({.a = MatrixReader(op.dtype, rank.a, op.k),
                      .b_x = multiply(b, op.k, x_),
                      .frobenius_norm = frobenius_norm(b, op.k, op.n),
                      .spectral_norm = rounds_to_short_type(op) ? estimate_spectral_norm(b, op.k, x_) : 0});
  }
}

ProjectedOracle::Check ProjectedOracle::check(std::int64_t row, std::span<const double> c_row) {
  double expected = 0;
  double allowed = rounds_to_short_type(op_) ? kConfidence * unit_roundoff(op_.dtype) * norm(c_row) : 0;
  for (const RankProjection& rank : ranks_) {
    rank.a.read_row(row, a_row_);
    expected += dot(a_row_, rank.b_x);
    const double a_norm = norm(a_row_);
    allowed += accumulation_roundoff(op_) * a_norm * rank.frobenius_norm;
    allowed += kConfidence * unit_roundoff(op_.dtype) * a_norm * rank.spectral_norm;
  }
  return {.difference = std::abs(dot(c_row, x_) - expected), .allowed = allowed};
}

} // namespace mc2::executor
