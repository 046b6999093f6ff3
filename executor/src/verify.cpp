#include "mc2/executor/verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "double_oracle.hpp"
#include "mc2/planner/collective.hpp"
#include "mc2/planner/text.hpp"
#include "parallel_for.hpp"
#include "poison.hpp"
#include "row_splits.hpp"
#include "texts.hpp"
#include "verify_norm.hpp"
#include "verify_pooling.hpp"
#include "verify_report.hpp"

namespace mc2::executor {
namespace {

/// Reads and checks C of every rank. Threads: safe to share.
class Results {
 public:
  Results(const planner::OpSpec& op, std::span<const RankBuffers> buffers) : op_(op), splits_(op, buffers) {
    for (const RankBuffers& rank : buffers) {
      readers_.emplace_back(planner::product_type(op), rank.c, op.n);
      ends_.push_back(row_count() + rank_shapes(op, rank).c.rows);
    }
  }

  /// The number of rows of all ranks together. row_at() numbers them rank by rank.
  [[nodiscard]] std::int64_t row_count() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] std::int64_t rows_of(std::size_t rank) const noexcept {
    return ends_[rank] - (rank == 0 ? 0 : ends_[rank - 1]);
  }
  [[nodiscard]] ResultRow row_at(std::int64_t index) const noexcept {
    const auto rank = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    return {rank, index - (ends_[rank] - rows_of(rank))};
  }
  [[nodiscard]] const RowSplits& splits() const noexcept { return splits_; }

  [[nodiscard]] std::vector<double> read(const ResultRow& at) const {
    std::vector<double> values(static_cast<std::size_t>(op_.n));
    readers_[at.rank].read_row(at.row, values);
    return values;
  }

  [[nodiscard]] Result<void> check_written() const {
    const auto is_bad = [](double value) { return !std::isfinite(value); };
    const auto bad_row =
        parallel_find_first(row_count(), [&](std::int64_t i) { return std::ranges::any_of(read(row_at(i)), is_bad); });
    if (!bad_row) return {};
    const auto values = read(row_at(*bad_row));
    const auto bad = std::ranges::find_if(values, is_bad);
    const Position at{row_at(*bad_row), bad - values.begin()};
    return mismatch(at, is_poison(at) ? "was not written" : "is " + number_text(*bad, kDigits));
  }

  /// The first element of the first row in which a rank differs from rank 0.
  [[nodiscard]] std::optional<Position> find_rank_difference() const {
    const auto row = parallel_find_first(rows_of(0), [&](std::int64_t i) { return different_rank(i) != 0; });
    if (!row) return std::nullopt;
    const std::size_t rank = different_rank(*row);
    const auto own = readers_.front().row_bytes(*row);
    const auto byte = std::ranges::mismatch(own, readers_[rank].row_bytes(*row)).in1 - own.begin();
    return Position{{rank, *row}, byte / planner::size_bytes(planner::product_type(op_))};
  }

 private:
  /// The first rank whose row differs from rank 0's; 0 if there is none.
  [[nodiscard]] std::size_t different_rank(std::int64_t row) const {
    const auto own = readers_.front().row_bytes(row);
    for (std::size_t rank = 1; rank < readers_.size(); ++rank) {
      if (std::memcmp(own.data(), readers_[rank].row_bytes(row).data(), own.size()) != 0) return rank;
    }
    return 0;
  }

  [[nodiscard]] bool is_poison(const Position& at) const {
    const auto poison = poison_of(planner::product_type(op_));
    const auto element = readers_[at.at.rank].row_bytes(at.at.row).subspan(
        static_cast<std::size_t>(at.column) * poison.size(), poison.size());
    return std::ranges::equal(element, poison);
  }

  planner::OpSpec op_;
  RowSplits splits_;
  std::vector<MatrixReader> readers_; ///< by rank
  std::vector<std::int64_t> ends_;    ///< by rank: number of rows of this and all earlier ranks
};

/// The error for two ranks that differ: names the one that is further from the oracle.
Error rank_difference(const Position& found, const OracleRow& oracle, const Results& results) {
  const ResultRow first{0, found.at.row};
  const auto own = worst_element(results.read(first), oracle);
  const auto other = worst_element(results.read(found.at), oracle);
  const std::string suffix =
      "; ranks 0 and " + std::to_string(found.at.rank) + " differ in column " + std::to_string(found.column);
  if (own.ratio > other.ratio) return mismatch({first, own.column}, own.text() + suffix);
  return mismatch({found.at, other.column}, other.text() + suffix);
}

/// Whether every rank gets the same C. Checking one rank is then enough once all are known to be equal to the bit.
bool all_get_the_same(const planner::OpSpec& op) {
  return planner::collective_of(op.kind) == planner::Collective::AllReduce;
}

/// Adds the first and last row of every block of one shard of C, which begins at `start` and may be shorter than the
/// cut axis.
void add_edges(const planner::Cut& cut, std::int64_t start, std::int64_t row_count, std::vector<std::int64_t>& rows) {
  std::int64_t first = 0;
  for (const std::int64_t length : cut.block_rows) {
    if (first >= row_count) return;
    rows.push_back(start + first);
    first += length;
    rows.push_back(start + std::min(first, row_count) - 1);
  }
}

/// The rows of one rank's C that are compared element by element: all rows of a small problem; otherwise the first and
/// last row of every block in every shard of C, and a few at random.
std::vector<std::int64_t> rows_to_compare(const planner::OpSpec& op, const planner::Cut& cut, const Results& results,
                                          std::size_t rank, std::mt19937_64& random) {
  constexpr double kSmallMultiplyAdds = 0x1p24; // about 10 ms
  constexpr int kRandomRows = 8;
  const std::int64_t row_count = results.rows_of(rank);
  std::vector<std::int64_t> rows;
  if (row_count == 0) return rows;
  if (op.flop_count() / 2 * op.world_size <= kSmallMultiplyAdds) {
    for (std::int64_t i = 0; i < row_count; ++i) rows.push_back(i);
    return rows;
  }
  if (planner::cut_axis(op) == planner::CutAxis::Columns) {
    rows = {0, row_count - 1}; // a row crosses every block of columns
  } else if (planner::sums_over_ranks(op.kind)) {
    add_edges(cut, 0, row_count, rows);
  } else {
    const RowSplits& splits = results.splits();
    for (int from = 0; from < op.world_size; ++from)
      add_edges(cut, splits.receive_offset(static_cast<int>(rank), from), splits.count(from, static_cast<int>(rank)),
                rows);
    const std::int64_t choices = planner::products_per_row(op); // of a row's products one is compared
    for (std::int64_t& row : rows) row = row * choices + row % choices;
  }
  for (int i = 0; i < kRandomRows; ++i) {
    rows.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(row_count)));
  }
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

std::vector<ResultRow> rows_to_compare(const planner::OpSpec& op, const planner::Cut& cut, const Results& results,
                                       std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<ResultRow> rows;
  const auto rank_count = static_cast<std::size_t>(all_get_the_same(op) ? 1 : op.world_size);
  for (std::size_t rank = 0; rank < rank_count; ++rank) {
    for (const std::int64_t row : rows_to_compare(op, cut, results, rank, random)) rows.push_back({rank, row});
  }
  return rows;
}

/// The number of rows whose oracle fits into a few tens of MiB of doubles.
std::size_t rows_at_once(const planner::OpSpec& op) {
  constexpr std::int64_t kElements = std::int64_t{1} << 22U;
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(kElements / std::max(4 * op.n, term_count(op) * op.k), 1, 256));
}

/// Compares rows element by element. Returns the largest ratio of an error to the allowed error. Errors: Mismatch.
Result<double> compare_rows(const planner::OpSpec& op, std::span<const ResultRow> rows, const DoubleOracle& oracle,
                            const Results& results) {
  double largest = 0;
  for (std::size_t first = 0; first < rows.size(); first += rows_at_once(op)) {
    const auto batch = rows.subspan(first, std::min(rows_at_once(op), rows.size() - first));
    const auto expected = oracle.rows(batch);
    const auto worst_of = [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      return worst_element(results.read(batch[at]), expected[at]);
    };
    const auto found =
        worst_ratio(static_cast<std::int64_t>(batch.size()), [&](std::int64_t i) { return worst_of(i).ratio; });
    if (found.wrong) {
      const auto worst = worst_of(*found.wrong);
      return mismatch({batch[static_cast<std::size_t>(*found.wrong)], worst.column}, worst.text());
    }
    largest = std::max(largest, found.ratio);
  }
  return largest;
}

Result<double> compare_projections(const planner::OpSpec& op, const ProjectedOracle& projection,
                                   const DoubleOracle& oracle, const Results& results) {
  const std::int64_t count = all_get_the_same(op) ? results.rows_of(0) : results.row_count();
  const auto found = worst_ratio(count, [&](std::int64_t i) {
    const ResultRow at = results.row_at(i);
    const auto check = projection.check(at, results.read(at));
    return check.difference == 0 ? 0 : check.difference / check.allowed;
  });
  if (!found.wrong) return found.ratio;
  const ResultRow at = results.row_at(*found.wrong);
  const auto worst = worst_element(results.read(at), oracle.rows({&at, 1}).front());
  return mismatch({at, worst.column}, worst.text() + "; found by the row's projection");
}

std::string success_text(const planner::OpSpec& op, const Verification& found, std::int64_t row_count,
                         const char* projections) {
  return std::to_string(found.element_count) + " elements written and finite, " +
         (all_get_the_same(op) ? "all ranks equal to the bit, " : "") + std::to_string(found.exact_row_count) + " of " +
         std::to_string(row_count) + " rows compared element by element" + projections + "; the largest error is " +
         percent_text(found.worst_error_ratio, 2) + " of what rounding allows";
}

/// The operands of the exchange: the partial products of all ranks, and the bias and residual that it adds.
struct Partials {
  std::vector<MatrixReader> products; ///< by rank
  Addends addends;
  RowSplits splits;
};

/// A row of C as the sum of partial products, bias and residual, with the allowed errors.
OracleRow sum_of_partials(const planner::OpSpec& op, const Partials& partials, const ResultRow& at) {
  const double roundoff = (op.world_size + 2) * kF32Roundoff + unit_roundoff(planner::product_type(op));
  const auto columns = static_cast<std::size_t>(op.n);
  OracleRow oracle{std::vector<double>(columns), std::vector<double>(columns)};
  std::vector<double> addend(columns);
  for (const Term& term : terms_of(op, partials.splits, at)) {
    partials.products[term.b_rank].read_row(term.product_row, addend);
    for (std::size_t j = 0; j < columns; ++j) {
      oracle.expected[j] += addend[j];
      oracle.allowed[j] += roundoff * std::abs(addend[j]);
    }
  }
  const double least = half_smallest(planner::product_type(op)) * (op.world_size + 2);
  const auto residual = partials.addends.residual_at(at);
  const auto bias = planner::sums_over_ranks(op.kind) ? partials.addends.bias_at(at) : std::vector<double>(columns);
  for (std::size_t j = 0; j < columns; ++j) {
    oracle.expected[j] += bias[j] + residual[j];
    oracle.allowed[j] += roundoff * (std::abs(bias[j]) + std::abs(residual[j])) + least;
  }
  return oracle;
}

/// Rearranges products that lie block after block of columns, each [m, b], to [m, n].
std::vector<std::vector<std::byte>> joined_columns(const planner::OpSpec& op,
                                                   std::span<const std::span<const std::byte>> blocks,
                                                   const planner::Cut& cut) {
  const auto size = static_cast<std::size_t>(planner::size_bytes(planner::product_type(op)));
  const auto row_bytes = static_cast<std::size_t>(op.n) * size;
  std::vector<std::vector<std::byte>> products;
  for (const auto& from : blocks) {
    auto& product = products.emplace_back(from.size());
    std::size_t first_byte = 0, taken = 0;
    for (const std::int64_t columns : cut.block_rows) {
      const std::size_t length = static_cast<std::size_t>(columns) * size;
      for (std::size_t row = 0; row < static_cast<std::size_t>(op.m); ++row, taken += length)
        std::ranges::copy(from.subspan(taken, length),
                          product.begin() + static_cast<std::ptrdiff_t>(row * row_bytes + first_byte));
      first_byte += length;
    }
  }
  return products;
}

Result<Verification> verify_sums(const planner::OpSpec& op,
                                 std::span<const std::span<const std::byte>> partial_products,
                                 std::span<const RankBuffers> buffers) {
  const Results results(op, buffers);
  MC2_TRY(results.check_written());
  Partials partials{{}, Addends(op, buffers), results.splits()};
  for (const auto& partial : partial_products) partials.products.emplace_back(planner::product_type(op), partial, op.n);
  const auto worst_of = [&](const ResultRow& at) {
    return worst_element(results.read(at), sum_of_partials(op, partials, at));
  };
  const auto checked =
      worst_ratio(results.row_count(), [&](std::int64_t i) { return worst_of(results.row_at(i)).ratio; });
  if (checked.wrong) {
    const ResultRow at = results.row_at(*checked.wrong);
    const auto worst = worst_of(at);
    return mismatch({at, worst.column}, worst.text() + ", the sum of the partial products");
  }
  if (const auto at = all_get_the_same(op) ? results.find_rank_difference() : std::nullopt) {
    return mismatch(*at, "differs from rank 0, although both are sums of the same partial products");
  }
  Verification found{.worst_error_ratio = checked.ratio,
                     .element_count = results.row_count() * op.n,
                     .exact_row_count = results.row_count(),
                     .text = {}};
  found.text = success_text(op, found, results.row_count(), " with the sum of the partial products");
  return found;
}

/// The matrices in which moved rows arrive, and those from which they are sent.
struct MovedRows {
  std::vector<MatrixReader> arrived, sent; ///< by rank
  bool is_own_moved = false;               ///< whether a rank's rows for itself arrive, too
  const char* arrived_name = "";
  const char* sent_name = "";
};

MovedRows moved_rows(const planner::OpSpec& op, std::span<const std::span<const std::byte>> intermediates,
                     std::span<const RankBuffers> buffers) {
  const bool is_product = planner::traits_of(op.kind).first_lane == planner::Lane::Compute;
  MovedRows moved{.arrived = {},
                  .sent = {},
                  .is_own_moved = is_product,
                  .arrived_name = is_product ? "C" : "the received A",
                  .sent_name = is_product ? "product" : "A"};
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    if (is_product) {
      moved.arrived.emplace_back(planner::product_type(op), buffers[rank].c, op.n);
      moved.sent.emplace_back(planner::product_type(op), intermediates[rank], op.n);
    } else {
      moved.arrived.emplace_back(op.dtype, intermediates[rank], op.k);
      moved.sent.emplace_back(op.dtype, buffers[rank].a, op.k);
    }
  }
  return moved;
}

/// Checks a collective that only moves rows: they must arrive unchanged to the bit.
Result<Verification> verify_moves(const planner::OpSpec& op, std::span<const std::span<const std::byte>> intermediates,
                                  std::span<const RankBuffers> buffers) {
  const MovedRows moved = moved_rows(op, intermediates, buffers);
  const RowSplits splits(op, buffers);
  std::int64_t row_count = 0;
  const int ranks = op.world_size;
  for (int pair = 0; pair < ranks * ranks; ++pair) {
    const int to = pair / ranks, from = pair % ranks;
    if (from == to && !moved.is_own_moved) continue;
    row_count += splits.count(from, to);
    for (std::int64_t i = 0; i < splits.count(from, to); ++i) {
      const std::int64_t row = splits.receive_offset(to, from) + i, sent_row = splits.send_offset(from, to) + i;
      const auto got = moved.arrived[static_cast<std::size_t>(to)].row_bytes(row);
      const auto sent = moved.sent[static_cast<std::size_t>(from)].row_bytes(sent_row);
      if (std::memcmp(got.data(), sent.data(), got.size()) == 0) continue;
      const auto byte = std::ranges::mismatch(got, sent).in1 - got.begin();
      return mismatch({{static_cast<std::size_t>(to), row}, byte / planner::size_bytes(planner::exchange_type(op))},
                      std::string(moved.arrived_name) + " differs from row " + std::to_string(sent_row) + " of " +
                          rank_text(from) + "'s " + moved.sent_name);
    }
  }
  const std::int64_t columns = moved.is_own_moved ? op.n : op.k;
  return Verification{.worst_error_ratio = 0,
                      .element_count = row_count * columns,
                      .exact_row_count = row_count,
                      .text = std::to_string(row_count) + " received rows of " + moved.sent_name +
                              " equal to their senders' to the bit"};
}

/// Checks every gathered A that a rank wants: it must hold all ranks' A, one shard below the other.
Result<void> check_gathered(const planner::OpSpec& op, std::span<const RankBuffers> buffers) {
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    for (std::size_t from = 0; from < buffers.size() && !buffers[rank].gathered_a.empty(); ++from) {
      const std::span<const std::byte> sent = buffers[from].a;
      const auto got = buffers[rank].gathered_a.subspan(from * sent.size(), sent.size());
      if (std::memcmp(got.data(), sent.data(), got.size()) == 0) continue;
      const auto element = (std::ranges::mismatch(got, sent).in1 - got.begin()) / planner::size_bytes(op.dtype);
      return Error{ErrorCode::Mismatch, "gathered_a",
                   rank_text(rank) + ": row " + std::to_string(element / op.k) + ", column " +
                       std::to_string(element % op.k) + " of " + rank_text(from) +
                       "'s A differs from what that rank sent"};
    }
  }
  return {};
}

} // namespace

Result<Verification> verify_result(const planner::OpSpec& op, std::span<const RankBuffers> buffers,
                                   const planner::Cut& cut, std::uint64_t seed) {
  if (op.tables) return verify_pooling(op, buffers);
  const Results results(op, buffers);
  MC2_TRY(results.check_written());
  MC2_TRY(check_gathered(op, buffers));
  const DoubleOracle oracle(op, buffers);
  if (const auto found = all_get_the_same(op) ? results.find_rank_difference() : std::nullopt) {
    return rank_difference(*found, oracle.rows({&found->at, 1}).front(), results);
  }
  MC2_ASSIGN(const double normed, verify_norm(op, buffers));
  const auto rows = rows_to_compare(op, cut, results, seed);
  MC2_ASSIGN(const auto exact, compare_rows(op, rows, oracle, results));
  const ProjectedOracle projection(op, buffers, oracle, seed);
  MC2_ASSIGN(const auto projected, compare_projections(op, projection, oracle, results));

  Verification found{.worst_error_ratio = std::max({exact, projected, normed}),
                     .element_count = results.row_count() * op.n,
                     .exact_row_count = static_cast<std::int64_t>(rows.size()),
                     .text = {}};
  found.text = success_text(op, found, all_get_the_same(op) ? op.m : results.row_count(),
                            ", every row through a random projection");
  return found;
}

Result<Verification> verify_exchange(const planner::OpSpec& op,
                                     std::span<const std::span<const std::byte>> intermediates,
                                     std::span<const RankBuffers> buffers, const planner::Cut& cut) {
  if (op.tables) return verify_pooled_moves(op, intermediates, buffers);
  MC2_TRY(verify_norm(op, buffers)); // compares with C, which need not be right for that
  if (planner::cut_axis(op) == planner::CutAxis::Columns) {
    const auto products = joined_columns(op, intermediates, cut);
    const std::vector<std::span<const std::byte>> views(products.begin(), products.end());
    return verify_sums(op, views, buffers);
  }
  const bool adds_residual = planner::traits_of(op.kind).moves_products() && op.epilogue.has_residual;
  if (planner::sums_over_ranks(op.kind) || adds_residual) return verify_sums(op, intermediates, buffers);
  return verify_moves(op, intermediates, buffers);
}

} // namespace mc2::executor
