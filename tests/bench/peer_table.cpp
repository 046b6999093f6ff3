#include "peer_table.hpp"

#include <array>

#include "mc2/planner/text.hpp"
#include "mc2/store/csv.hpp"

namespace mc2::cli {
namespace {

using store::CsvColumn, store::CsvRow;

constexpr std::size_t kMostShapes = 1000;

enum Column : std::size_t { kKind, kM, kN, kK, kSerial, kIdeal, kSpeedup, kPeer };
constexpr std::array kColumns{CsvColumn{"kind", true},       CsvColumn{"m", true},         CsvColumn{"n", true},
                              CsvColumn{"k", true},          CsvColumn{"serial_us", true}, CsvColumn{"ideal_us", true},
                              CsvColumn{"serial/mc2", true}, CsvColumn{"torch/mc2"}};

/// A time or ratio. Errors: Malformed unless above 0.
Result<double> positive(const CsvRow& row, std::size_t column) {
  MC2_ASSIGN(const double value, row.number(column));
  if (value > 0) return value;
  return row.error(column, "is not above 0");
}

Result<OverlapRow> read_row(const CsvRow& row) {
  OverlapRow result;
  MC2_ASSIGN(result.op.kind, row.at(kKind, planner::parse_op_kind(row.text(kKind))));
  MC2_ASSIGN(result.op.m, row.whole_number(kM, 1, planner::kMaxSize));
  MC2_ASSIGN(result.op.n, row.whole_number(kN, 1, planner::kMaxSize));
  MC2_ASSIGN(result.op.k, row.whole_number(kK, 1, planner::kMaxSize));
  MC2_ASSIGN(result.serial_us, positive(row, kSerial));
  MC2_ASSIGN(result.ideal_us, positive(row, kIdeal));
  MC2_ASSIGN(result.serial_over_mc2, positive(row, kSpeedup));
  const std::string peer = row.text(kPeer);
  if (peer.empty() || peer == "-") return result; // PyTorch has no such operator
  MC2_ASSIGN(result.peer_over_mc2, positive(row, kPeer));
  return result;
}

} // namespace

Result<std::vector<OverlapRow>> read_peer_table(std::string_view text, const std::string& file) {
  std::vector<OverlapRow> rows;
  const auto take = [&](const CsvRow& row) -> Result<void> {
    MC2_ASSIGN(auto read, read_row(row));
    rows.push_back(std::move(read));
    return {};
  };
  MC2_TRY(store::read_csv(text, file, {kColumns, "shape", kMostShapes, true}, take));
  if (rows.empty()) return Error{ErrorCode::InvalidSpec, file, "has no shape to draw"};
  return rows;
}

std::string machine_of_table(std::string_view text) {
  constexpr std::string_view kHead = "# machine: ";
  const auto start = text.find(kHead);
  if (start == std::string_view::npos) return {};
  std::string_view line = text.substr(start + kHead.size());
  line = line.substr(0, line.find_first_of("(\n,"));
  return std::string(trimmed(line));
}

} // namespace mc2::cli
