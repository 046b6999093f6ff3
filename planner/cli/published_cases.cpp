#include "published_cases.hpp"

#include <charconv>
#include <cmath>
#include <map>

#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/planner.hpp"

namespace mc2::cli {
namespace {

using planner::Error;
using planner::ErrorCode;

constexpr double kMib = planner::kBytesPerMib;
constexpr double kLeastMatmulRows = 128;

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> cells;
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = line.find(',');
    std::string_view cell = line.substr(0, comma);
    while (!cell.empty() && (cell.back() == '\r' || cell.back() == ' ')) cell.remove_suffix(1);
    cells.emplace_back(cell);
    if (comma != std::string_view::npos) line.remove_prefix(comma + 1);
  }
  return cells;
}

/// One line by column name. The first cell that is missing or no number is kept as the error; it reads as 0.
class Row {
 public:
  Row(const std::vector<std::string>& heading, const std::vector<std::string>& cells) {
    if (cells.size() != heading.size())
      fail("has " + std::to_string(cells.size()) + " cells where the heading has " + std::to_string(heading.size()));
    else
      for (std::size_t i = 0; i < cells.size(); ++i) cells_[heading[i]] = cells[i];
  }

  [[nodiscard]] const std::string& text(const std::string& column) {
    static const std::string kNone;
    const auto found = cells_.find(column);
    if (found != cells_.end()) return found->second;
    fail("column '" + column + "' is missing");
    return kNone;
  }
  template <typename Number>
  [[nodiscard]] Number number(const std::string& column) {
    const std::string& cell = text(column);
    Number value{};
    const auto [end, failure] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (failure == std::errc() && end == cell.data() + cell.size()) return value;
    fail("column '" + column + "': '" + cell.substr(0, 32) + "' is no number of its kind");
    return {};
  }
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  void fail(const std::string& message) {
    if (error_.empty()) error_ = message;
  }

 private:
  std::map<std::string, std::string> cells_;
  std::string error_;
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

/// max(128, rows) * us_per_row.
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
                  planner::SegmentsCurve{bytes_per_mib,
                                         {bytes_per_mib / 16, 8 * bytes_per_mib},
                                         {piece(0, 0, 18), piece(-0.9698202, 27.0622573, 14.769),
                                          piece(0, 13.58491263, 61.508333)}});
}

planner::OpSpec read_op(Row& row) {
  planner::OpSpec op;
  const auto kind = planner::parse_op_kind(row.text("op"));
  if (kind) op.kind = kind.value();
  else row.fail(kind.error().message);
  op.m = row.number<std::int64_t>("M");
  op.n = row.number<std::int64_t>("N");
  op.k = row.number<std::int64_t>("K");
  op.world_size = row.number<int>("ranks");
  op.dtype = planner::DType::F16;
  if (const auto valid = op.validate(); !valid) row.fail(valid.error().text());
  return op;
}

planner::Cut read_peer_cut(Row& row) {
  const auto list = [&](const std::string& kind) {
    const auto count = row.number<std::int64_t>("peer_" + kind + "_count");
    if (count < 0 || count > planner::kMaxBlockCount) {
      row.fail("column 'peer_" + kind + "_count' is " + std::to_string(count) + "; legal: 0 to 1024");
      return std::vector<std::int64_t>{};
    }
    return std::vector<std::int64_t>(static_cast<std::size_t>(count), row.number<std::int64_t>("peer_" + kind + "_len"));
  };
  const auto short_blocks = list("short"), long_blocks = list("long");
  planner::Cut cut{row.text("peer_order") == "short_last" ? long_blocks : short_blocks};
  const auto& rest = row.text("peer_order") == "short_last" ? short_blocks : long_blocks;
  cut.block_rows.insert(cut.block_rows.end(), rest.begin(), rest.end());
  return cut;
}

PublishedCase read_case(Row& row) {
  PublishedCase result;
  planner::CostModel& model = result.model;
  model.op = read_op(row);
  model.fingerprint.fields = {{"device", "ascend-910b"}, {"ranks", std::to_string(model.op.world_size)}};
  model.source = "constants of the production Ascend planner";
  result.peer_cut = read_peer_cut(row);
  result.peer_us = row.number<double>("peer_us");
  result.uncut_us = row.number<double>("uncut_us");
  result.best_us = row.number<double>("best_us");
  const double us_per_row = row.number<double>("mm_us_per_row"), factor = row.number<double>("comm_factor");
  const auto bytes_per_row = row.number<double>("comm_bytes_per_row");
  if (!(us_per_row > 0 && factor > 0 && bytes_per_row > 0)) row.fail("holds a cost that is not above 0");
  if (!row.error().empty()) return result;

  const planner::OpTraits& traits = planner::traits_of(model.op.kind);
  const auto rows = row.number<std::int64_t>("cut_axis_len");
  if (rows != traits.cut_axis_length(model.op))
    row.fail("column 'cut_axis_len' is " + std::to_string(rows) + "; the operator's cut axis has " +
             std::to_string(traits.cut_axis_length(model.op)) + " rows");
  // The file's bytes per row may follow another convention than ours; the curve's unit absorbs the difference.
  const double bytes_per_mib = kMib * static_cast<double>(traits.message_bytes_per_row(model.op)) / bytes_per_row;
  model.variants.push_back({{"direct", {}}, {matmul_curve(us_per_row)}, {communication_curve(factor, bytes_per_mib)}});
  if (traits.has_local_part) {
    const double local_us_per_row = row.number<double>("front_mm_us") / static_cast<double>(rows);
    model.variants.front().local_compute = analytic(planner::CurveAxis::Rows, planner::AffineCurve{0, local_us_per_row});
  }
  if (const auto valid = model.validate(); !valid) row.fail(valid.error().text());
  return result;
}

} // namespace

Result<std::vector<PublishedCase>> parse_published_cases(std::string_view text, const std::string& file) {
  std::vector<PublishedCase> cases;
  std::vector<std::string> heading;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto cells = split(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (cells.size() == 1 && cells.front().empty()) continue;
    if (heading.empty()) {
      heading = cells;
      continue;
    }
    Row row(heading, cells);
    cases.push_back(read_case(row));
    if (!row.error().empty()) return Error{ErrorCode::Malformed, file + ":" + std::to_string(number), row.error()};
  }
  if (cases.empty()) return Error{ErrorCode::Malformed, file, "holds no cases"};
  return cases;
}

} // namespace mc2::cli
