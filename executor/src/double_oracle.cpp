#include "double_oracle.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "bf16.hpp"
#include "f16.hpp"
#include "f8.hpp"
#include "mc2/planner/collective.hpp"
#include "parallel_for.hpp"

namespace mc2::executor {
namespace {

/// The bounds allow so many standard deviations of the random walk of rounding errors.
constexpr double kConfidence = 4;
/// A factor for the products of two roundings, which the first-order bound of short types leaves out.
constexpr double kSecondOrder = 1.01;
constexpr std::int64_t kTileColumns = 64; ///< columns of B that are converted at once, for all rows that need them

double dot(std::span<const double> left, std::span<const double> right) {
  return std::inner_product(left.begin(), left.end(), right.begin(), 0.0);
}

double norm(std::span<const double> vector) { return std::sqrt(dot(vector, vector)); }

/// The allowed rounding of sums in f32, per unit of sum |a| |b|. For f8 products it is larger: tensor cores keep only
/// 14 bits of partial sums before they add them to f32 (DeepSeek-V3 technical report, arXiv 2412.19437, section 3.3.2).
double accumulation_roundoff(const planner::OpSpec& op) {
  constexpr double kTensorCoreRoundoff = 0x1p-13;
  const double short_sums = op.dtype == planner::DType::F8E4m3 ? 2 * kTensorCoreRoundoff : 0;
  return short_sums + kConfidence * kF32Roundoff * (std::sqrt(static_cast<double>(op.k)) + term_count(op));
}

/// How often a product may be rounded to the result's type before the last addition. A collective may round after each
/// of its additions, as rings do; no partial sum exceeds sum |p|. A grouped matmul may round before it weights and adds
/// up the products of a row's choices, as backend cuda does.
int product_roundings(const planner::OpSpec& op) {
  if (!planner::sums_over_ranks(op.kind)) return 0;
  return op.world_size - 1 + (op.experts ? 1 : 0);
}

double result_roundoff(const planner::OpSpec& op) { return unit_roundoff(planner::product_type(op)); }

/// What roundings may change an element by, however small it is: one rounding for each rank's sum and some for the
/// result.
double least_allowed(const planner::OpSpec& op) {
  constexpr int kOfResult = 4;
  return half_smallest(planner::product_type(op)) * (op.world_size + kOfResult);
}

/// The same for a product that is rounded before it is multiplied by `weight`.
double least_allowed(const planner::OpSpec& op, double weight) {
  return half_smallest(planner::product_type(op)) * std::abs(weight);
}

bool rounds_to_short_type(const planner::OpSpec& op) { return planner::product_type(op) != planner::DType::F32; }

/// Whether products are rounded to a short type before they travel, and again when the residual is added.
bool rounds_before_residual(const planner::OpSpec& op) {
  return planner::traits_of(op.kind).moves_products() && op.epilogue.has_residual && rounds_to_short_type(op);
}

/// Whether a collective may round a sum to a short type before bias and residual are added.
bool rounds_before_epilogue(const planner::OpSpec& op) {
  return planner::sums_over_ranks(op.kind) && op.epilogue.adds() && rounds_to_short_type(op);
}

/// Whether cuBLASLt rounds products before it adds the bias, and again before the residual. It does so if the bytes of
/// a row of A or of C are no multiple of 16.
bool rounds_odd_rows(const planner::OpSpec& op) {
  constexpr std::int64_t kWholeBytes = 16;
  const bool are_odd = op.k * planner::size_bytes(op.dtype) % kWholeBytes != 0 ||
                       op.n * planner::size_bytes(planner::product_type(op)) % kWholeBytes != 0;
  return !planner::sums_over_ranks(op.kind) && op.epilogue.adds() && rounds_to_short_type(op) && are_odd;
}

/// Divides an operand of every rank into `part_count` equal parts; returns the parts of all ranks, rank after rank.
template <typename T>
std::vector<std::span<const std::byte>> in_parts(std::int64_t part_count, std::span<const RankBuffers> buffers,
                                                 std::span<T> RankBuffers::*operand) {
  std::vector<std::span<const std::byte>> parts;
  for (const RankBuffers& rank : buffers) {
    const std::span<const std::byte> all = rank.*operand;
    const std::size_t size = all.size() / static_cast<std::size_t>(part_count);
    for (std::size_t part = 0; part < static_cast<std::size_t>(part_count); ++part)
      parts.push_back(all.subspan(part * size, size));
  }
  return parts;
}

std::vector<double> read_all(planner::DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / static_cast<std::size_t>(planner::size_bytes(dtype)));
  if (!values.empty()) MatrixReader(dtype, bytes, static_cast<std::int64_t>(values.size())).read_row(0, values);
  return values;
}

/// Calls `work(first_column, column_count)` for every tile of columns, on several threads.
template <typename Work>
void for_each_tile(std::int64_t columns, Work&& work) {
  parallel_for(planner::ceil_div(columns, kTileColumns), [&](std::int64_t tile) {
    const std::int64_t first = tile * kTileColumns;
    work(first, static_cast<std::size_t>(std::min(kTileColumns, columns - first)));
  });
}

/// B times `x`. multiply_transposed() is `x` times B.
std::vector<double> multiply(const MatrixReader& b, std::int64_t rows, std::span<const double> x) {
  std::vector<double> result(static_cast<std::size_t>(rows));
  constexpr std::int64_t kRowsPerCall = 64;
  parallel_for(planner::ceil_div(rows, kRowsPerCall), [&](std::int64_t group) {
    std::vector<double> row(x.size());
    for (std::int64_t i = group * kRowsPerCall; i < std::min(rows, (group + 1) * kRowsPerCall); ++i) {
      b.read_row(i, row);
      result[static_cast<std::size_t>(i)] = dot(row, x);
    }
  });
  return result;
}

std::vector<double> multiply_transposed(const MatrixReader& b, std::span<const double> x, std::int64_t columns) {
  std::vector<double> result(static_cast<std::size_t>(columns));
  for_each_tile(columns, [&](std::int64_t first, std::size_t count) {
    std::array<double, kTileColumns> sums{}, part;
    for (std::size_t i = 0; i < x.size(); ++i) {
      b.read_part(static_cast<std::int64_t>(i), first, std::span(part).first(count));
      for (std::size_t j = 0; j < count; ++j) sums[j] += x[i] * part[j];
    }
    std::copy_n(sums.begin(), count, result.begin() + first);
  });
  return result;
}

/// Estimates the largest singular value by a few power iterations. They approach it from below; kConfidence covers the
/// difference.
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
    case planner::DType::I8:
    case planner::DType::F8E4m3: return 0; // never rounded to
  }
  return 1;
}

std::span<const std::byte> MatrixReader::row_bytes(std::int64_t row) const noexcept {
  const std::int64_t bytes = columns_ * planner::size_bytes(dtype_);
  return bytes_.subspan(static_cast<std::size_t>(row * bytes), static_cast<std::size_t>(bytes));
}

void MatrixReader::read_part(std::int64_t row, std::int64_t first_column, std::span<double> out) const noexcept {
  const auto bytes = row_bytes(row).subspan(static_cast<std::size_t>(first_column * planner::size_bytes(dtype_)));
  switch (dtype_) {
    case planner::DType::F32: return convert<float>(bytes, out, [](float value) { return value; });
    case planner::DType::F16: return convert<F16>(bytes, out, [](F16 value) { return to_float(value); });
    case planner::DType::Bf16: return convert<Bf16>(bytes, out, [](Bf16 value) { return to_float(value); });
    case planner::DType::I8: return convert<std::int8_t>(bytes, out, [](std::int8_t value) { return value; });
    case planner::DType::F8E4m3: return convert<F8E4m3>(bytes, out, [](F8E4m3 value) { return to_float(value); });
  }
}

int term_count(const planner::OpSpec& op) noexcept {
  return planner::sums_over_ranks(op.kind) ? op.world_size * static_cast<int>(planner::products_per_row(op)) : 1;
}

namespace {

/// The product that a row of C consists of, in kinds that only move rows.
Term moved_term(bool is_multiplied_first, const RowSplits& splits, const ResultRow& at) {
  const auto rank = static_cast<int>(at.rank);
  for (int from = 0; from < splits.world_size(); ++from) {
    const auto sender = static_cast<std::size_t>(from);
    for (const ExpertRows& rows :
         is_multiplied_first ? splits.rows_by_expert(from, rank) : splits.rows_by_expert(rank, from)) {
      const std::int64_t c_row = is_multiplied_first ? splits.receive_offset(rank, from) + rows.first : rows.row;
      const std::int64_t a_row = is_multiplied_first ? rows.row : splits.send_offset(from, rank) + rows.first;
      if (at.row < c_row || at.row >= c_row + rows.count) continue;
      return {
          .a_rank = sender,
          .a_row = a_row + at.row - c_row,
          .b_rank = is_multiplied_first ? sender : at.rank,
          .expert = static_cast<std::size_t>(rows.expert),
          .product_row = is_multiplied_first ? splits.send_offset(from, rank) + rows.first + at.row - c_row : at.row};
    }
  }
  MC2_CHECK(false, "a row of C that nobody sends");
  return {};
}

} // namespace

std::vector<Term> terms_of(const planner::OpSpec& op, const RowSplits& splits, const ResultRow& at) {
  const auto rank = static_cast<int>(at.rank);
  if (!planner::sums_over_ranks(op.kind)) {
    return {moved_term(planner::traits_of(op.kind).moves_products(), splits, at)};
  }
  const std::int64_t a_row = splits.send_offset(rank, rank) + at.row;
  std::vector<Term> terms;
  for (std::size_t term = 0; term < static_cast<std::size_t>(op.world_size); ++term) {
    terms.push_back({.a_rank = term, .a_row = a_row, .b_rank = term, .product_row = a_row});
  }
  return terms;
}

Products::Products(const planner::OpSpec& op, std::span<const RankBuffers> buffers) : op_(op), splits_(op, buffers) {
  for (const RankBuffers& rank : buffers)
    if (op.experts) choices_.emplace_back(op, rank.choices);
}

std::vector<Term> Products::of(const ResultRow& at) const {
  if (!op_.experts) return terms_of(op_, splits_, at);
  const std::int64_t top_k = op_.experts->top_k;
  const bool is_summed = planner::sums_over_ranks(op_.kind);
  std::vector<Term> products;
  for (Term term : terms_of(op_, splits_, {at.rank, is_summed ? at.row : at.row / top_k})) {
    const ChoiceReader& choices = choices_[term.b_rank];
    const std::int64_t first = is_summed ? term.a_row * top_k : at.row, count = is_summed ? top_k : 1;
    for (std::int64_t place = first; place < first + count; ++place) {
      if (is_summed) term.a_row = place;
      const Choice choice = choices.at(place);
      term.expert = static_cast<std::size_t>(choice.expert);
      term.weight = choice.weight;
      products.push_back(term);
    }
  }
  return products;
}

Scales::Scales(const planner::OpSpec& op, std::span<const RankBuffers> buffers)
    : a_is_given_to_receivers_(planner::traits_of(op.kind).communicates_first()) {
  for (const RankBuffers& rank : buffers) {
    a_.push_back(read_all(planner::DType::F32, rank.a_scales));
  }
  for (const auto& scales : in_parts(planner::matrix_count(op), buffers, &RankBuffers::b_scales))
    b_.push_back(read_all(planner::DType::F32, scales));
}

double Scales::of_a(const Term& term) const {
  const auto& scales = a_[a_is_given_to_receivers_ ? term.b_rank : term.a_rank];
  if (scales.empty()) return 1;
  return scales[scales.size() > 1 ? term.a_rank : 0];
}

double Scales::of_b(std::size_t b, std::size_t column) const {
  const auto& scales = b_[b];
  return scales.empty() ? 1 : scales[scales.size() > 1 ? column : 0];
}

Addends::Addends(const planner::OpSpec& op, std::span<const RankBuffers> buffers) : op_(op), products_(op, buffers) {
  const std::int64_t bias_count = planner::sums_over_ranks(op.kind) ? 1 : planner::matrix_count(op);
  for (const auto& bias : in_parts(bias_count, buffers, &RankBuffers::bias))
    bias_.push_back(read_all(planner::product_type(op), bias));
  for (const RankBuffers& rank : buffers) residual_.emplace_back(planner::product_type(op), rank.residual, op.n);
}

std::vector<double> Addends::bias_at(const ResultRow& at) const {
  if (!op_.epilogue.has_bias) return std::vector<double>(static_cast<std::size_t>(op_.n));
  return bias_[planner::sums_over_ranks(op_.kind) ? at.rank : products_.of(at).front().b_of(op_)];
}

std::vector<double> Addends::residual_at(const ResultRow& at) const {
  std::vector<double> values(static_cast<std::size_t>(op_.n));
  if (op_.epilogue.has_residual) residual_[at.rank].read_row(at.row, values);
  return values;
}

DoubleOracle::DoubleOracle(const planner::OpSpec& op, std::span<const RankBuffers> buffers)
    : op_(op), products_(op, buffers), scales_(op, buffers), addends_(op, buffers) {
  for (const RankBuffers& rank : buffers) a_.emplace_back(op.dtype, rank.a, op.k);
  for (const auto& bytes : in_parts(planner::matrix_count(op), buffers, &RankBuffers::b)) {
    const std::size_t index = b_.size();
    const MatrixReader& b = b_.emplace_back(op.dtype, bytes, op.n);
    auto& norms = column_norms_.emplace_back(static_cast<std::size_t>(op.n));
    for_each_tile(op.n, [&](std::int64_t first, std::size_t count) {
      std::array<double, kTileColumns> squares{}, part;
      for (std::int64_t i = 0; i < op.k; ++i) {
        b.read_part(i, first, std::span(part).first(count));
        for (std::size_t j = 0; j < count; ++j) squares[j] += part[j] * part[j];
      }
      for (std::size_t j = 0; j < count; ++j) {
        const std::size_t column = static_cast<std::size_t>(first) + j;
        norms[column] = std::sqrt(squares[j]) * std::abs(scales_.of_b(index, column));
      }
    });
  }
}

double DoubleOracle::frobenius_norm(std::size_t b) const { return norm(column_norms_[b]); }

std::vector<OracleRow> DoubleOracle::rows(std::span<const ResultRow> wanted) const {
  const auto columns = static_cast<std::size_t>(op_.n);
  std::vector<OracleRow> rows(wanted.size(), {std::vector<double>(columns), std::vector<double>(columns)});
  const Factors factors = factors_of(wanted);
  for_each_tile(op_.n, [&](std::int64_t first, std::size_t /*count*/) { add_tile(factors, first, rows); });
  parallel_for(static_cast<std::int64_t>(wanted.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    finish_row(wanted[at], rows[at]);
  });
  return rows;
}

/// Adds bias and residual to the sums of products, and allows for the roundings of the result.
void DoubleOracle::finish_row(const ResultRow& at, OracleRow& row) const {
  const double roundoff = rounds_to_short_type(op_) ? kSecondOrder * result_roundoff(op_) : 0;
  const bool rounds_odd = rounds_odd_rows(op_), rounds_first = rounds_before_epilogue(op_) || rounds_odd;
  const bool rounds_between = rounds_before_residual(op_);
  const double least = least_allowed(op_);
  const auto bias = addends_.bias_at(at), residual = addends_.residual_at(at);
  for (std::size_t j = 0; j < row.expected.size(); ++j) {
    const double product = row.expected[j];
    if (rounds_first) row.allowed[j] += roundoff * std::abs(product);
    if (rounds_odd) row.allowed[j] += roundoff * std::abs(product + residual[j]);
    row.expected[j] += bias[j];
    if (rounds_between) row.allowed[j] += roundoff * std::abs(row.expected[j]);
    row.expected[j] += residual[j];
    row.allowed[j] += kConfidence * kF32Roundoff * (std::abs(bias[j]) + std::abs(residual[j]));
    row.allowed[j] += roundoff * std::abs(row.expected[j]) + least;
  }
}

DoubleOracle::Factors DoubleOracle::factors_of(std::span<const ResultRow> wanted) const {
  Factors factors(b_.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (const Term& term : products_.of(wanted[i])) {
      Factor& factor = factors[term.b_of(op_)].emplace_back();
      factor.wanted = i;
      factor.a.resize(static_cast<std::size_t>(op_.k));
      a_[term.a_rank].read_row(term.a_row, factor.a);
      factor.weight = term.weight;
      factor.scale = scales_.of_a(term) * term.weight;
      factor.norm = norm(factor.a) * std::abs(factor.scale);
    }
  }
  return factors;
}

void DoubleOracle::add_tile(const Factors& factors, std::int64_t first_column, std::span<OracleRow> rows) const {
  const auto first = static_cast<std::size_t>(first_column);
  const auto count = static_cast<std::size_t>(std::min(kTileColumns, op_.n - first_column));
  const double roundoff = rounds_to_short_type(op_) ? kSecondOrder * result_roundoff(op_) * product_roundings(op_) : 0;
  std::array<double, kTileColumns> b_part;
  for (std::size_t b = 0; b < b_.size(); ++b) {
    std::vector<std::array<double, kTileColumns>> products(factors[b].size());
    for (std::int64_t i = 0; i < op_.k && !products.empty(); ++i) {
      b_[b].read_part(i, first_column, std::span(b_part).first(count));
      for (std::size_t f = 0; f < products.size(); ++f) {
        const double a = factors[b][f].a[static_cast<std::size_t>(i)];
        for (std::size_t j = 0; j < count; ++j) products[f][j] += a * b_part[j];
      }
    }
    for (std::size_t f = 0; f < products.size(); ++f) {
      OracleRow& row = rows[factors[b][f].wanted];
      const double scale = accumulation_roundoff(op_) * factors[b][f].norm;
      const double least = least_allowed(op_, factors[b][f].weight);
      for (std::size_t j = 0; j < count; ++j) {
        // The sum is scaled once; for i8 it is an exact sum of integers.
        const double product = products[f][j] * (factors[b][f].scale * scales_.of_b(b, first + j));
        row.expected[first + j] += product;
        row.allowed[first + j] += scale * column_norms_[b][first + j] + roundoff * std::abs(product) + least;
      }
    }
  }
}

ProjectedOracle::ProjectedOracle(const planner::OpSpec& op, std::span<const RankBuffers> buffers,
                                 const DoubleOracle& oracle, std::uint64_t seed)
    : op_(op), products_(op, buffers), scales_(op, buffers), addends_(op, buffers), x_(static_cast<std::size_t>(op.n)) {
  std::mt19937_64 random(seed);
  for (double& element : x_) element = (random() & 1U) != 0 ? 1.0 : -1.0;
  for (const RankBuffers& rank : buffers) a_.emplace_back(op.dtype, rank.a, op.k);
  for (const auto& bytes : in_parts(planner::matrix_count(op), buffers, &RankBuffers::b)) {
    const std::size_t place = b_.size();
    const MatrixReader b(op.dtype, bytes, op.n);
    std::vector<double> scaled_x = x_;
    double largest_scale = 0;
    for (std::size_t j = 0; j < x_.size(); ++j) {
      scaled_x[j] *= scales_.of_b(place, j);
      largest_scale = std::max(largest_scale, std::abs(scales_.of_b(place, j)));
    }
    b_.push_back({.b_x = multiply(b, op.k, scaled_x),
                  .frobenius_norm = oracle.frobenius_norm(place),
                  .spectral_norm = rounds_to_short_type(op) ? largest_scale * estimate_spectral_norm(b, op.k, x_) : 0});
  }
}

ProjectedOracle::Check ProjectedOracle::check(const ResultRow& at, std::span<const double> c_row) const {
  const auto bias = addends_.bias_at(at), residual = addends_.residual_at(at);
  const double short_roundoff = rounds_to_short_type(op_) ? kConfidence * result_roundoff(op_) : 0;
  double expected = dot(bias, x_) + dot(residual, x_);
  const double least_count = kConfidence * std::sqrt(static_cast<double>(op_.n)); // a random walk over n elements
  double allowed = least_count * least_allowed(op_);
  allowed += short_roundoff * norm(c_row) + kConfidence * kF32Roundoff * (norm(bias) + norm(residual));
  if (rounds_before_residual(op_)) allowed += short_roundoff * norm(bias);
  const int more_roundings = (rounds_before_epilogue(op_) ? 1 : 0) + (rounds_odd_rows(op_) ? 2 : 0);
  allowed += more_roundings * short_roundoff * (norm(c_row) + norm(bias) + norm(residual));
  const double product_roundoff = kConfidence * result_roundoff(op_) * std::max(1, product_roundings(op_));
  std::vector<double> a_row(static_cast<std::size_t>(op_.k));
  for (const Term& term : products_.of(at)) {
    a_[term.a_rank].read_row(term.a_row, a_row);
    const Projection& b = b_[term.b_of(op_)];
    const double a_scale = scales_.of_a(term) * term.weight;
    expected += a_scale * dot(a_row, b.b_x);
    const double a_norm = norm(a_row) * std::abs(a_scale);
    allowed += accumulation_roundoff(op_) * a_norm * b.frobenius_norm;
    allowed += product_roundoff * a_norm * b.spectral_norm + least_count * least_allowed(op_, term.weight);
  }
  return {.difference = std::abs(dot(c_row, x_) - expected), .allowed = allowed};
}

} // namespace mc2::executor
