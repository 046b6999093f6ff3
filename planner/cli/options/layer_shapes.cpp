#include "options/layer_shapes.hpp"

#include <array>
#include <map>
#include <utility>

#include "options/csv.hpp"

namespace mc2::cli {
namespace layer_table {
namespace {

constexpr std::size_t kMaxLayerCount = 10'000;
constexpr std::size_t kMaxNameBytes = 64;

enum Column : std::size_t { kModel, kLayer, kParallel, kN, kK, kUnits, kDtype };
constexpr std::array kColumns{CsvColumn{"model", true}, CsvColumn{"layer", true}, CsvColumn{"parallel", true},
                              CsvColumn{"n", true},     CsvColumn{"k", true},     CsvColumn{"units"},
                              CsvColumn{"dtype"}};

struct ParallelismTraits {
  Parallelism parallelism;
  std::string_view name;
  std::array<std::optional<planner::OpKind>, 2> kinds; ///< without and with sequence parallelism
};

constexpr std::array kParallelisms{
    ParallelismTraits{
        Parallelism::Row, "row", {planner::OpKind::MatmulAllReduce, planner::OpKind::MatmulReduceScatter}},
    ParallelismTraits{Parallelism::Column, "column", {std::nullopt, planner::OpKind::AllGatherMatmul}},
    ParallelismTraits{Parallelism::Dispatch, "dispatch", {planner::OpKind::AllToAllMatmul, std::nullopt}},
    ParallelismTraits{Parallelism::Combine, "combine", {planner::OpKind::MatmulAllToAll, std::nullopt}}};

bool divides_an_axis(Parallelism parallelism) {
  return parallelism == Parallelism::Row || parallelism == Parallelism::Column;
}

Result<std::string> read_name(const CsvRow& row, std::size_t column) {
  std::string name = row.text(column);
  if (!name.empty() && name.size() <= kMaxNameBytes) return name;
  return row.error(column, kColumns[column].name,
                   name.empty()
                       ? "is empty; name it"
                       : "has " + std::to_string(name.size()) + " bytes; legal: 1 to " + std::to_string(kMaxNameBytes));
}

Result<Parallelism> read_parallelism(const CsvRow& row) {
  const std::string text = row.text(kParallel);
  for (const auto& traits : kParallelisms)
    if (traits.name == text) return traits.parallelism;
  return Error{ErrorCode::UnknownName, row.place(kParallel),
               "parallel: unknown name '" + text.substr(0, 32) + "'; legal: row, column, dispatch, combine"};
}

/// Errors: Malformed where the parts could not be equally long, or nothing is divided into parts.
Result<std::int64_t> read_units(const CsvRow& row, const LayerShape& shape) {
  if (!divides_an_axis(shape.parallelism)) {
    if (row.text(kUnits).empty()) return std::int64_t{0};
    return row.error(kUnits, kColumns[kUnits].name, "is given, but every rank has a whole expert; leave it empty");
  }
  const std::int64_t axis = shape.parallelism == Parallelism::Row ? shape.k : shape.n;
  if (row.text(kUnits).empty()) return axis;
  const auto units = row.whole_number(kUnits, kColumns[kUnits].name, 1, axis);
  if (!units || axis % units.value() == 0) return units;
  return row.error(
      kUnits, kColumns[kUnits].name,
      std::to_string(units.value()) + " do not divide the axis of " + std::to_string(axis) + " into equal parts");
}

Result<void> read_sizes(const CsvRow& row, LayerShape& shape) {
  MC2_ASSIGN(const auto n, row.whole_number(kN, kColumns[kN].name, 1, planner::kMaxSize));
  MC2_ASSIGN(const auto k, row.whole_number(kK, kColumns[kK].name, 1, planner::kMaxSize));
  shape.n = n;
  shape.k = k;
  MC2_ASSIGN(shape.units, read_units(row, shape));
  return {};
}

Result<LayerShape> read_layer(const CsvRow& row) {
  LayerShape shape;
  MC2_ASSIGN(auto model, read_name(row, kModel));
  MC2_ASSIGN(auto layer, read_name(row, kLayer));
  MC2_ASSIGN(const auto parallelism, read_parallelism(row));
  shape.model = std::move(model);
  shape.layer = std::move(layer);
  shape.parallelism = parallelism;
  MC2_TRY(read_sizes(row, shape));
  if (row.text(kDtype).empty()) return shape;
  const auto dtype = planner::parse_dtype(row.text(kDtype));
  if (!dtype) return Error{dtype.error().code, row.place(kDtype), dtype.error().text()};
  shape.dtype = dtype.value();
  return shape;
}

} // namespace
} // namespace layer_table

std::vector<planner::OpKind> LayerShape::kinds() const {
  using namespace layer_table;
  std::vector<planner::OpKind> result;
  for (const auto& traits : kParallelisms)
    if (traits.parallelism == parallelism)
      for (const auto& kind : traits.kinds)
        if (kind) result.push_back(*kind);
  return result;
}

Result<planner::OpSpec> LayerShape::op(planner::OpKind kind, std::int64_t m, int ranks) const {
  const bool is_row = parallelism == Parallelism::Row, is_column = parallelism == Parallelism::Column;
  const std::int64_t axis = is_row ? k : n;
  if (units % ranks != 0) // 0 where nothing is divided
    return Error{ErrorCode::Infeasible, "ranks",
                 std::to_string(ranks) + " ranks do not divide " + (is_row ? "k = " : "n = ") + std::to_string(axis) +
                     (units == axis ? "" : " into whole parts, of which it has " + std::to_string(units)) +
                     "; give a number of ranks that divides " + std::to_string(units)};
  planner::OpSpec op{kind, m, is_column ? n / ranks : n, is_row ? k / ranks : k, dtype, ranks};
  MC2_TRY(op.validate());
  return op;
}

Result<std::vector<LayerShape>> parse_layer_shapes(std::string_view text, const std::string& file) {
  using namespace layer_table;
  std::vector<LayerShape> layers;
  std::map<std::pair<std::string, std::string>, int> line_of;
  const auto take = [&](const CsvRow& row) -> Result<void> {
    MC2_ASSIGN(auto layer, read_layer(row));
    const auto [earlier, is_new] = line_of.try_emplace({layer.model, layer.layer}, row.line());
    if (!is_new)
      return row.error(kLayer, kColumns[kLayer].name,
                       layer.model + " " + layer.layer + " is named a second time; the first is in line " +
                           std::to_string(earlier->second));
    layers.push_back(std::move(layer));
    return {};
  };
  MC2_TRY(read_csv(text, file, {kColumns, "layer", kMaxLayerCount}, take));
  return layers;
}

} // namespace mc2::cli
