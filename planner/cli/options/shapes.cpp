#include "options/shapes.hpp"

#include <array>
#include <optional>

#include "mc2/store/csv.hpp"

namespace mc2::cli {
namespace shape_table {
namespace {

using store::CsvColumn, store::CsvRow;

constexpr std::size_t kMaxShapeCount = 10'000;

enum Column : std::size_t {
  kM,
  kN,
  kK,
  kOp,
  kDtype,
  kRanks,
  kTables,
  kTableRows,
  kPooling,
  kEpilogue,
  kExpertsPerRank,
  kExperts,
  kTopK
};
constexpr std::array kColumns{
    CsvColumn{"m", true}, CsvColumn{"n", true},  CsvColumn{"k", true},          CsvColumn{"op"},
    CsvColumn{"dtype"},   CsvColumn{"ranks"},    CsvColumn{"tables"},           CsvColumn{"table_rows"},
    CsvColumn{"pooling"}, CsvColumn{"epilogue"}, CsvColumn{"experts_per_rank"}, CsvColumn{"experts"},
    CsvColumn{"top_k"}};

/// Other kinds leave the cells of tables and experts empty.
bool is_given(const CsvRow& row, std::size_t column) { return row.has(column) && !row.text(column).empty(); }

Result<planner::OpSpec> read_shape(const CsvRow& row, const OpOptions& defaults) {
  OpOptions op = defaults;
  const std::pair<std::size_t, std::optional<std::int64_t>*> sizes[] = {{kM, &op.m},
                                                                        {kN, &op.n},
                                                                        {kK, &op.k},
                                                                        {kTables, &op.tables},
                                                                        {kTableRows, &op.table_rows},
                                                                        {kExpertsPerRank, &op.experts_per_rank},
                                                                        {kExperts, &op.experts},
                                                                        {kTopK, &op.top_k}};
  for (const auto& [column, target] : sizes) {
    if (!kColumns[column].is_required && !is_given(row, column)) continue;
    MC2_ASSIGN(*target, row.whole_number(column, 1, planner::kMaxSize));
  }
  if (is_given(row, kPooling)) op.pooling = row.text(kPooling);
  if (row.has(kOp)) op.kind = row.text(kOp);
  if (row.has(kDtype)) op.dtype = row.text(kDtype);
  if (row.has(kRanks)) {
    MC2_ASSIGN(const auto ranks, row.whole_number(kRanks, 2, planner::kMaxWorldSize));
    op.ranks = static_cast<int>(ranks);
  }
  if (row.has(kEpilogue)) {
    MC2_ASSIGN(op.epilogue, row.at(kEpilogue, planner::parse_epilogue(row.text(kEpilogue))));
    op.norm.reset();
  }
  auto spec = op.spec();
  if (spec) return spec;
  const std::string field = spec.error().field == "norm" && row.has(kEpilogue) ? "epilogue" : spec.error().field;
  for (std::size_t column = 0; column < kColumns.size(); ++column)
    if (field == kColumns[column].name) return Error{spec.error().code, row.place(column), spec.error().text()};
  return Error{spec.error().code, row.place(kM), spec.error().text()};
}

} // namespace
} // namespace shape_table

Result<std::vector<planner::OpSpec>> parse_shapes(std::string_view text, const std::string& file,
                                                  const OpOptions& defaults) {
  using namespace shape_table;
  std::vector<planner::OpSpec> shapes;
  const auto take = [&](const CsvRow& row) -> Result<void> {
    MC2_ASSIGN(auto shape, read_shape(row, defaults));
    shapes.push_back(shape);
    return {};
  };
  MC2_TRY(store::read_csv(text, file, {kColumns, "shape", kMaxShapeCount}, take));
  return shapes;
}

} // namespace mc2::cli
