#include "verify_pooling.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bags.hpp"
#include "double_oracle.hpp"
#include "mc2/planner/text.hpp"
#include "poison.hpp"
#include "texts.hpp"
#include "verify_report.hpp"

namespace mc2::executor {
namespace {

/// The features of one sample from one table, and their position in the C of the rank that gets them.
struct Feature {
  std::size_t sender = 0;
  std::int64_t table = 0;
  std::int64_t sample = 0; ///< number in the whole batch
  ResultRow at;
  std::int64_t first_column = 0;
};

class PoolingCheck {
 public:
  PoolingCheck(const planner::OpSpec& op, std::span<const RankBuffers> buffers)
      : op_(op), columns_(op.n / op.tables->table_count) {
    for (const RankBuffers& rank : buffers) {
      tables_.emplace_back(op.dtype, rank.b, columns_);
      bags_.emplace_back(op, rank.bags);
      results_.emplace_back(op.dtype, rank.c, op.world_size * op.n);
    }
  }

  /// The product of the numbers of ranks, of tables of a rank, and of samples.
  [[nodiscard]] std::int64_t feature_count() const noexcept { return op_.world_size * op_.tables->table_count * op_.m; }

  [[nodiscard]] Feature feature(std::int64_t index) const noexcept {
    const std::int64_t sample = index % op_.m, table = index / op_.m % op_.tables->table_count;
    const std::int64_t sender = index / op_.m / op_.tables->table_count, share = op_.m / op_.world_size;
    return {.sender = static_cast<std::size_t>(sender),
            .table = table,
            .sample = sample,
            .at = {static_cast<std::size_t>(sample / share), sample % share},
            .first_column = sender * op_.n + table * columns_};
  }

  [[nodiscard]] WorstElement check(const Feature& feature) const {
    const auto count = static_cast<std::size_t>(columns_);
    std::vector<double> magnitude(count), got(count);
    OracleRow oracle{std::vector<double>(count), std::vector<double>(count)};
    const double length = add_bag(feature, oracle.expected, magnitude);
    results_[feature.at.rank].read_part(feature.at.row, feature.first_column, got);
    const double divisor = op_.tables->pooling == planner::Pooling::Mean && length > 0 ? length : 1;
    const double short_roundoff = op_.dtype == planner::DType::F32 ? 0 : unit_roundoff(op_.dtype);
    for (std::size_t j = 0; j < count; ++j) {
      oracle.expected[j] /= divisor;
      oracle.allowed[j] = (length + 1) * kF32Roundoff * magnitude[j] / divisor +
                          kSecondOrder * short_roundoff * std::abs(oracle.expected[j]) + half_smallest(op_.dtype);
    }
    return worst_element(got, oracle);
  }

  [[nodiscard]] Error error(const Feature& feature) const {
    const WorstElement worst = check(feature);
    const std::int64_t column = feature.first_column + worst.column;
    const auto poison = poison_of(op_.dtype);
    const auto bytes = results_[feature.at.rank]
                           .row_bytes(feature.at.row)
                           .subspan(static_cast<std::size_t>(column) * poison.size(), poison.size());
    return mismatch({feature.at, column}, std::ranges::equal(bytes, poison)
                                              ? "was not written"
                                              : worst.text() + ": sample " + std::to_string(feature.sample) +
                                                    " of table " + std::to_string(feature.table) + " of " +
                                                    rank_text(feature.sender));
  }

 private:
  /// A factor for the products of two roundings, which the first-order bound leaves out.
  static constexpr double kSecondOrder = 1.01;

  /// Adds up the bag's rows and their magnitudes; returns the number of rows.
  double add_bag(const Feature& feature, std::span<double> sums, std::span<double> magnitudes) const {
    const BagReader& bags = bags_[feature.sender];
    const BagReader::Range range = bags.range_of(feature.table, feature.sample);
    std::vector<double> row(sums.size());
    for (std::int64_t place = range.first; place < range.end; ++place) {
      tables_[feature.sender].read_row(feature.table * op_.tables->row_count + bags.row_at(place), row);
      for (std::size_t j = 0; j < row.size(); ++j) {
        sums[j] += row[j];
        magnitudes[j] += std::abs(row[j]);
      }
    }
    return static_cast<double>(range.length());
  }

  planner::OpSpec op_;
  std::int64_t columns_;              ///< columns of a table
  std::vector<MatrixReader> tables_;  ///< by rank: all of a rank's tables, one below the other
  std::vector<BagReader> bags_;       ///< by rank
  std::vector<MatrixReader> results_; ///< by rank: C
};

} // namespace

Result<Verification> verify_pooling(const planner::OpSpec& op, std::span<const RankBuffers> buffers) {
  const PoolingCheck check(op, buffers);
  const auto worst =
      worst_ratio(check.feature_count(), [&](std::int64_t i) { return check.check(check.feature(i)).ratio; });
  if (worst.wrong) return check.error(check.feature(*worst.wrong));
  Verification found{.worst_error_ratio = worst.ratio,
                     .element_count = op.world_size * operand_shapes(op).c.element_count(),
                     .exact_row_count = op.m,
                     .text = {}};
  found.text = std::to_string(found.element_count) +
               " pooled features written, finite and compared one by one; the largest "
               "error is " +
               percent_text(found.worst_error_ratio, 2) + " of what rounding allows";
  return found;
}

Result<Verification> verify_pooled_moves(const planner::OpSpec& op, std::span<const std::span<const std::byte>> pooled,
                                         std::span<const RankBuffers> buffers) {
  const std::int64_t share = op.m / op.world_size;
  const auto element_bytes = static_cast<std::size_t>(planner::size_bytes(op.dtype));
  const auto row_bytes = static_cast<std::size_t>(op.n) * element_bytes;
  for (std::int64_t sample = 0; sample < op.m; ++sample) {
    const ResultRow at{static_cast<std::size_t>(sample / share), sample % share};
    const auto row = MatrixReader(op.dtype, buffers[at.rank].c, op.world_size * op.n).row_bytes(at.row);
    for (std::size_t sender = 0; sender < pooled.size(); ++sender) {
      const auto got = row.subspan(sender * row_bytes, row_bytes);
      const auto sent = MatrixReader(op.dtype, pooled[sender], op.n).row_bytes(sample);
      if (std::ranges::equal(got, sent)) continue;
      const auto byte = static_cast<std::size_t>(std::ranges::mismatch(got, sent).in1 - got.begin());
      return mismatch(
          {at, static_cast<std::int64_t>((sender * row_bytes + byte) / element_bytes)},
          "C differs from sample " + std::to_string(sample) + " of " + rank_text(sender) + "'s pooled features");
    }
  }
  return Verification{.worst_error_ratio = 0,
                      .element_count = op.world_size * operand_shapes(op).c.element_count(),
                      .exact_row_count = op.m,
                      .text = std::to_string(op.m) + " samples' pooled features equal to their senders' to the bit"};
}

} // namespace mc2::executor
