#include "published_cases.hpp"

#include <array>
#include <optional>
#include <utility>

#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/store/csv.hpp"

namespace mc2::cli {
namespace {

using store::CsvColumn, store::CsvFormat, store::CsvRow;

constexpr double kMib = planner::kBytesPerMib;
constexpr double kLeastMatmulRows = 128;
constexpr std::size_t kMaxCaseCount = 100'000;

enum Column : std::size_t {
  kOp,
  kRanks,
  kM,
  kK,
  kN,
  kCutAxis,
  kUsPerRow,
  kFrontUs,
  kBytesPerRow,
  kCommFactor,
  kShortRows,
  kShortCount,
  kLongRows,
  kLongCount,
  kOrder,
  kPeerUs,
  kUncutUs,
  kBestUs
};
constexpr std::array kColumns{CsvColumn{"op", true},
                              CsvColumn{"ranks", true},
                              CsvColumn{"M", true},
                              CsvColumn{"K", true},
                              CsvColumn{"N", true},
                              CsvColumn{"cut_axis_len", true},
                              CsvColumn{"mm_us_per_row", true},
                              CsvColumn{"front_mm_us", true},
                              CsvColumn{"comm_bytes_per_row", true},
                              CsvColumn{"comm_factor", true},
                              CsvColumn{"peer_short_len", true},
                              CsvColumn{"peer_short_count", true},
                              CsvColumn{"peer_long_len", true},
                              CsvColumn{"peer_long_count", true},
                              CsvColumn{"peer_order", true},
                              CsvColumn{"peer_us", true},
                              CsvColumn{"uncut_us", true},
                              CsvColumn{"best_us", true}};

/// The cells of one line. The first cell that cannot be read is kept as the error; such a cell gives the least legal
/// value, or 1.
class Cells {
 public:
  explicit Cells(const CsvRow& row) : row_(row) {}

  [[nodiscard]] std::string text(Column column) const { return row_.text(column); }
  [[nodiscard]] std::int64_t whole(Column column, std::int64_t low, std::int64_t high) {
    return value_or(row_.whole_number(column, low, high), low);
  }
  [[nodiscard]] double number(Column column) { return value_or(row_.number(column), 1.0); }
  [[nodiscard]] double positive(Column column) {
    const double value = number(column);
    if (!(value > 0)) fail(column, "is not above 0");
    return value;
  }
  void fail(Column column, const std::string& message) {
    if (!error_) error_ = row_.error(column, message);
  }
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

 private:
  template <typename Value>
  Value value_or(const Result<Value>& read, Value other) {
    if (read) return read.value();
    if (!error_) error_ = read.error();
    return other;
  }

  const CsvRow& row_;
  std::optional<Error> error_;
};

planner::CostCurve analytic(planner::CurveAxis axis, planner::CostCurve::Shape shape) {
  planner::CostCurve curve;
  curve.axis = axis;
  curve.shape = std::move(shape);
  curve.is_analytic = true;
  curve.valid_min_x = 1;
  curve.valid_max_x = 1e15;
  return curve;
}

/// The curve max(128, rows) * us_per_row.
planner::CostCurve matmul_curve(double us_per_row) {
  return analytic(planner::CurveAxis::Rows,
                  planner::PiecewiseCurve{kLeastMatmulRows, 1, 0, 0, kLeastMatmulRows * us_per_row, us_per_row, 0});
}

/// The published all-reduce times over MiB, divided by the factor of kind and ranks. docs/cost_model.md §2.
planner::CostCurve communication_curve(double factor, double bytes_per_mib) {
  const auto piece = [factor](double q2, double q1, double q0) {
    return planner::CurvePiece{q2 / factor, q1 / factor, q0 / factor};
  };
  return analytic(planner::CurveAxis::Bytes,
                  planner::SegmentsCurve{
                      bytes_per_mib,
                      {bytes_per_mib / 16, 8 * bytes_per_mib},
                      {piece(0, 0, 18), piece(-0.9698202, 27.0622573, 14.769), piece(0, 13.58491263, 61.508333)}});
}

planner::OpSpec read_op(Cells& cells) {
  planner::OpSpec op;
  const auto kind = planner::parse_op_kind(cells.text(kOp));
  if (kind)
    op.kind = kind.value();
  else
    cells.fail(kOp, kind.error().message);
  op.m = cells.whole(kM, 1, planner::kMaxSize);
  op.n = cells.whole(kN, 1, planner::kMaxSize);
  op.k = cells.whole(kK, 1, planner::kMaxSize);
  op.world_size = static_cast<int>(cells.whole(kRanks, 2, planner::kMaxWorldSize));
  op.dtype = planner::DType::F16;
  if (const auto valid = op.validate(); !valid) cells.fail(kOp, valid.error().text());
  return op;
}

planner::Cut read_peer_cut(Cells& cells) {
  const auto list = [&](Column count_column, Column rows_column) {
    const auto count = cells.whole(count_column, 0, planner::kMaxBlockCount);
    return std::vector<std::int64_t>(static_cast<std::size_t>(count), cells.whole(rows_column, 0, planner::kMaxSize));
  };
  const auto short_blocks = list(kShortCount, kShortRows), long_blocks = list(kLongCount, kLongRows);
  const bool is_short_last = cells.text(kOrder) == "short_last";
  planner::Cut cut{is_short_last ? long_blocks : short_blocks};
  const auto& rest = is_short_last ? short_blocks : long_blocks;
  cut.block_rows.insert(cut.block_rows.end(), rest.begin(), rest.end());
  return cut;
}

/// Adds the variant with the case's costs to the model of its operator.
void read_costs(Cells& cells, planner::CostModel& model) {
  const double us_per_row = cells.positive(kUsPerRow), factor = cells.positive(kCommFactor);
  const double bytes_per_row = cells.positive(kBytesPerRow), front_us = cells.number(kFrontUs);
  const std::int64_t said_rows = cells.whole(kCutAxis, 1, planner::kMaxSize);
  if (cells.error()) return;
  const planner::OpTraits& traits = planner::traits_of(model.op.kind);
  const std::int64_t rows = traits.cut_axis_length(model.op);
  if (said_rows != rows)
    cells.fail(kCutAxis,
               "is " + std::to_string(said_rows) + "; the operator's cut axis has " + std::to_string(rows) + " rows");
  // The file's bytes per row may follow another convention than mc2's. The unit of the curve makes up for the
  // difference.
  const double bytes_per_mib = kMib * static_cast<double>(traits.message_bytes_per_unit(model.op)) / bytes_per_row;
  model.variants.push_back({{"direct", {}}, {matmul_curve(us_per_row)}, {communication_curve(factor, bytes_per_mib)}});
  if (traits.has_local_part)
    model.variants.front().local_compute =
        analytic(planner::CurveAxis::Rows, planner::AffineCurve{0, front_us / static_cast<double>(rows)});
  if (const auto valid = model.validate(); !valid) cells.fail(kUsPerRow, valid.error().text());
}

PublishedCase read_case(Cells& cells) {
  PublishedCase result;
  result.model.op = read_op(cells);
  result.model.fingerprint.fields = {{"device", "ascend-910b"}, {"ranks", std::to_string(result.model.op.world_size)}};
  result.model.source = "constants of the production Ascend planner";
  result.peer_cut = read_peer_cut(cells);
  result.peer_us = cells.positive(kPeerUs);
  result.uncut_us = cells.positive(kUncutUs);
  result.best_us = cells.positive(kBestUs);
  read_costs(cells, result.model);
  return result;
}

} // namespace

Result<std::vector<PublishedCase>> parse_published_cases(std::string_view text, const std::string& file) {
  std::vector<PublishedCase> cases;
  // The published files also have columns of their own planner, such as min_tile.
  const CsvFormat format{kColumns, "case", kMaxCaseCount, true};
  const auto take = [&](const CsvRow& row) -> Result<void> {
    Cells cells(row);
    cases.push_back(read_case(cells));
    if (cells.error()) return *cells.error();
    return {};
  };
  MC2_TRY(store::read_csv(text, file, format, take));
  return cases;
}

} // namespace mc2::cli
