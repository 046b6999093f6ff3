#include "mc2/executor/verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>

#include "double_oracle.hpp"
#include "poison.hpp"

namespace mc2::executor {
namespace {

using planner::Error;
using planner::ErrorCode;
using planner::Result;

struct Position {
  std::size_t rank = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

std::string percent_text(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g %%", ratio * 100);
  return text;
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

Error mismatch(const Position& at, const std::string& detail) {
  return {ErrorCode::Mismatch, "c",
          "rank " + std::to_string(at.rank) + ", row " + std::to_string(at.row) + ", column " +
              std::to_string(at.column) + ": " + detail};
}

/// C of every rank, and the row that is being looked at.
class Results {
 public:
  Results(const planner::OpSpec& op, std::span<const RankBuffers> buffers)
      : op_(op), row_(static_cast<std::size_t>(op.n)) {
    for (const RankBuffers& rank : buffers) readers_.emplace_back(op.dtype, rank.c, op.n);
  }

  /// Valid until the next call.
  [[nodiscard]] std::span<const double> row(std::size_t rank, std::int64_t row) {
    readers_[rank].read_row(row, row_);
    return row_;
  }

  [[nodiscard]] Result<void> check_written() {
    for (std::size_t rank = 0; rank < readers_.size(); ++rank) {
      for (std::int64_t i = 0; i < op_.m; ++i) {
        const auto values = row(rank, i);
        const auto bad = std::ranges::find_if_not(values, [](double value) { return std::isfinite(value); });
        if (bad == values.end()) continue;
        const Position at{rank, i, bad - values.begin()};
        return mismatch(at, is_poison(at) ? "was not written" : "is " + number_text(*bad));
      }
    }
    return {};
  }

  /// The first element of the first row in which two ranks differ.
  [[nodiscard]] std::optional<Position> find_rank_difference() const {
    for (std::int64_t i = 0; i < op_.m; ++i) {
      const auto own = readers_.front().row_bytes(i);
      for (std::size_t rank = 1; rank < readers_.size(); ++rank) {
        const auto other = readers_[rank].row_bytes(i);
        const auto byte = std::ranges::mismatch(own, other).in1 - own.begin();
        if (byte < static_cast<std::ptrdiff_t>(own.size())) {
          return Position{rank, i, byte / planner::size_bytes(op_.dtype)};
        }
      }
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool is_poison(const Position& at) const {
    const auto bytes = static_cast<std::size_t>(planner::size_bytes(op_.dtype));
    const auto element =
        readers_[at.rank].row_bytes(at.row).subspan(static_cast<std::size_t>(at.column) * bytes, bytes);
    const void* poison = op_.dtype == planner::DType::F32 ? static_cast<const void*>(&kF32Poison) : &kBf16Poison;
    return std::memcmp(element.data(), poison, bytes) == 0;
  }

  planner::OpSpec op_;
  std::vector<MatrixReader> readers_; ///< by rank
  std::vector<double> row_;
};

/// The element of a row that is furthest outside what is allowed.
struct WorstElement {
  double ratio = 0;
  std::int64_t column = 0;
  std::string text;
};

WorstElement worst_element(std::span<const double> values, const OracleRow& oracle) {
  WorstElement worst;
  for (std::size_t j = 0; j < values.size(); ++j) {
    const double difference = std::abs(values[j] - oracle.expected[j]);
    const double ratio = difference == 0 ? 0 : difference / oracle.allowed[j];
    if (ratio > worst.ratio) worst = {ratio, static_cast<std::int64_t>(j), {}};
  }
  const auto at = static_cast<std::size_t>(worst.column);
  worst.text = "is " + number_text(values[at]) + ", should be " + number_text(oracle.expected[at]) + " within " +
               number_text(oracle.allowed[at]);
  return worst;
}

/// Which of two ranks that differ is further from the oracle.
Error rank_difference(const Position& at, const OracleRow& oracle, Results& results) {
  const auto own = worst_element(results.row(0, at.row), oracle);
  const auto other = worst_element(results.row(at.rank, at.row), oracle);
  const std::string suffix =
      "; ranks 0 and " + std::to_string(at.rank) + " differ in column " + std::to_string(at.column);
  if (own.ratio > other.ratio) return mismatch({0, at.row, own.column}, own.text + suffix);
  return mismatch({at.rank, at.row, other.column}, other.text + suffix);
}

/// Rows to compare element by element: all of a small problem; otherwise the first and last row of every block, and
/// a few at random.
std::vector<std::int64_t> rows_to_compare(const planner::OpSpec& op, const planner::Cut& cut, std::uint64_t seed) {
  constexpr double kSmallMultiplyAdds = 0x1p24; // about 10 ms
  constexpr int kRandomRows = 8;
  std::vector<std::int64_t> rows;
  if (op.flop_count() / 2 * op.world_size <= kSmallMultiplyAdds) {
    for (std::int64_t i = 0; i < op.m; ++i) rows.push_back(i);
    return rows;
  }
  std::int64_t end = 0;
  for (const std::int64_t length : cut.block_rows) {
    rows.push_back(end);
    end += length;
    rows.push_back(end - 1);
  }
  std::mt19937_64 random(seed);
  for (int i = 0; i < kRandomRows; ++i) {
    rows.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(op.m)));
  }
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

Result<void> check_dtype(planner::DType dtype) {
  if (dtype != planner::DType::F16) return {};
  return Error{ErrorCode::Unsupported, "dtype", "f16 results cannot be verified; f32 and bf16 can"};
}

/// Errors: Mismatch. On success the largest ratio of an error to what is allowed.
Result<double> compare_rows(std::span<const std::int64_t> rows, DoubleOracle& oracle, Results& results) {
  double worst_ratio = 0;
  for (const std::int64_t i : rows) {
    const auto worst = worst_element(results.row(0, i), oracle.row(i));
    if (worst.ratio > 1) return mismatch({0, i, worst.column}, worst.text);
    worst_ratio = std::max(worst_ratio, worst.ratio);
  }
  return worst_ratio;
}

Result<double> compare_projections(const planner::OpSpec& op, ProjectedOracle& projection, DoubleOracle& oracle,
                                   Results& results) {
  double worst_ratio = 0;
  for (std::int64_t i = 0; i < op.m; ++i) {
    const auto check = projection.check(i, results.row(0, i));
    const double ratio = check.difference == 0 ? 0 : check.difference / check.allowed;
    if (ratio > 1) {
      const auto worst = worst_element(results.row(0, i), oracle.row(i));
      return mismatch({0, i, worst.column}, worst.text + "; found by the row's projection");
    }
    worst_ratio = std::max(worst_ratio, ratio);
  }
  return worst_ratio;
}

std::string success_text(const Verification& found, std::int64_t row_count, const char* projections) {
  return std::to_string(found.element_count) + " elements written and finite, all ranks equal to the bit, " +
         std::to_string(found.exact_row_count) + " of " + std::to_string(row_count) +
         " rows compared element by element" + projections + "; the largest error is " +
         percent_text(found.worst_error_ratio) + " of what rounding allows";
}

/// One row of the sum of partial products, with its bound.
void sum_partials(std::span<const MatrixReader> partials, double roundoff, std::int64_t row,
                  std::span<double> scratch, OracleRow& oracle) {
  std::ranges::fill(oracle.expected, 0.0);
  std::ranges::fill(oracle.allowed, 0.0);
  for (const MatrixReader& partial : partials) {
    partial.read_row(row, scratch);
    for (std::size_t j = 0; j < scratch.size(); ++j) {
      oracle.expected[j] += scratch[j];
      oracle.allowed[j] += roundoff * std::abs(scratch[j]);
    }
  }
}

} // namespace

Result<Verification> verify_matmul_all_reduce(const planner::OpSpec& op, std::span<const RankBuffers> buffers,
                                              const planner::Cut& cut, std::uint64_t seed) {
  if (auto legal = check_dtype(op.dtype); !legal) return legal.error();
  Results results(op, buffers);
  if (auto written = results.check_written(); !written) return written.error();
  DoubleOracle oracle(op, buffers);
  if (const auto at = results.find_rank_difference()) return rank_difference(*at, oracle.row(at->row), results);

  const auto rows = rows_to_compare(op, cut, seed);
  const auto exact = compare_rows(rows, oracle, results);
  if (!exact) return exact.error();
  ProjectedOracle projection(op, buffers, seed);
  const auto projected = compare_projections(op, projection, oracle, results);
  if (!projected) return projected.error();

  Verification found{.worst_error_ratio = std::max(exact.value(), projected.value()),
                     .element_count = op.world_size * op.m * op.n,
                     .exact_row_count = static_cast<std::int64_t>(rows.size()),
                     .text = {}};
  found.text = success_text(found, op.m, ", every row through a random projection");
  return found;
}

Result<Verification> verify_sum_of_partials(const planner::OpSpec& op,
                                            std::span<const std::span<const std::byte>> partials,
                                            std::span<const RankBuffers> buffers) {
  if (auto legal = check_dtype(op.dtype); !legal) return legal.error();
  Results results(op, buffers);
  if (auto written = results.check_written(); !written) return written.error();

  std::vector<MatrixReader> readers;
  for (const auto& partial : partials) readers.emplace_back(op.dtype, partial, op.n);
  const auto columns = static_cast<std::size_t>(op.n);
  OracleRow oracle{std::vector<double>(columns), std::vector<double>(columns)};
  std::vector<double> scratch(columns);
  const double roundoff = op.world_size * kF32Roundoff + unit_roundoff(op.dtype);
  Verification found{
      .worst_error_ratio = 0, .element_count = op.world_size * op.m * op.n, .exact_row_count = op.m, .text = {}};
  for (std::int64_t i = 0; i < op.m; ++i) {
    sum_partials(readers, roundoff, i, scratch, oracle);
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      const auto worst = worst_element(results.row(rank, i), oracle);
      if (worst.ratio > 1) return mismatch({rank, i, worst.column}, worst.text + ", the sum of the partial products");
      found.worst_error_ratio = std::max(found.worst_error_ratio, worst.ratio);
    }
  }
  if (const auto at = results.find_rank_difference()) {
    return mismatch(*at, "differs from rank 0, although both are sums of the same partial products");
  }
  found.text = success_text(found, op.m, " with the sum of the partial products");
  return found;
}

} // namespace mc2::executor
