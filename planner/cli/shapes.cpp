#include "shapes.hpp"

#include <charconv>

#include "csv.hpp"

namespace mc2::cli {
namespace {

constexpr std::size_t kMaxShapeCount = 10'000;

template <typename Integer>
Result<void> set_integer(const std::string& column, const std::string& cell, Integer& target) {
  const auto [end, failure] = std::from_chars(cell.data(), cell.data() + cell.size(), target);
  if (failure == std::errc() && end == cell.data() + cell.size()) return {};
  return Error{ErrorCode::Malformed, column, "'" + cell.substr(0, 32) + "' is no whole number"};
}

Result<void> set_cell(const std::string& column, const std::string& cell, OpOptions& op) {
  if (column == "op") return op.kind = cell, Result<void>();
  if (column == "dtype") return op.dtype = cell, Result<void>();
  if (column == "m") return set_integer(column, cell, op.m.emplace());
  if (column == "n") return set_integer(column, cell, op.n.emplace());
  if (column == "k") return set_integer(column, cell, op.k.emplace());
  if (column == "ranks") return set_integer(column, cell, op.ranks);
  return Error{ErrorCode::Malformed, column, "is no column of a shapes file; legal: op, m, n, k, dtype, ranks"};
}

Result<planner::OpSpec> parse_row(const std::vector<std::string>& heading, const CsvRow& row,
                                  const OpOptions& defaults) {
  OpOptions op = defaults;
  for (std::size_t i = 0; i < row.cells.size(); ++i)
    if (auto set = set_cell(heading[i], row.cells[i], op); !set) return set.error();
  return op.spec();
}

} // namespace

Result<std::vector<planner::OpSpec>> parse_shapes(std::string_view text, const std::string& file,
                                                  const OpOptions& defaults) {
  const auto table = parse_csv(text, file, kMaxShapeCount, "shapes");
  if (!table) return table.error();
  std::vector<planner::OpSpec> shapes;
  for (const CsvRow& row : table.value().rows) {
    const auto op = parse_row(table.value().heading, row, defaults);
    if (!op) return Error{op.error().code, file + ":" + std::to_string(row.line), op.error().text()};
    shapes.push_back(op.value());
  }
  return shapes;
}

} // namespace mc2::cli
