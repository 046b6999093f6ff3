#include "options/layer_shapes.hpp"

#include <array>
#include <map>
#include <utility>

#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/store/csv.hpp"
#include "mc2/store/llm_config.hpp"

namespace mc2::cli {
namespace layer_table {
namespace {

using store::CsvColumn, store::CsvRow;

using planner::Parallelism;

constexpr std::int64_t kMaxLayerCount = 10'000;
constexpr std::size_t kMaxNameBytes = 64;

enum Column : std::size_t { kModel, kLayer, kParallel, kN, kK, kUnits, kDtype, kCount, kExperts, kPerToken };
constexpr std::array kColumns{CsvColumn{"model", true},    CsvColumn{"layer", true},
                              CsvColumn{"parallel", true}, CsvColumn{"n", true},
                              CsvColumn{"k", true},        CsvColumn{"units"},
                              CsvColumn{"dtype"},          CsvColumn{"count"},
                              CsvColumn{"experts"},        CsvColumn{"experts_per_token"}};

Result<std::string> read_name(const CsvRow& row, std::size_t column) {
  std::string name = row.text(column);
  if (!name.empty() && name.size() <= kMaxNameBytes) return name;
  return row.error(column, name.empty() ? "is empty; name it"
                                        : "has " + std::to_string(name.size()) + " bytes; legal: 1 to " +
                                              std::to_string(kMaxNameBytes));
}

/// Errors: Malformed if the units do not divide the axis equally, or are given for a layer without a divided axis.
Result<std::int64_t> read_units(const CsvRow& row, const LayerShape& shape) {
  if (!planner::divides_an_axis(shape.parallelism)) {
    if (row.text(kUnits).empty()) return std::int64_t{0};
    return row.error(kUnits, "is given, but every rank has whole experts; leave it empty");
  }
  const std::int64_t axis = shape.parallelism == Parallelism::Row ? shape.k : shape.n;
  if (row.text(kUnits).empty()) return axis;
  const auto units = row.whole_number(kUnits, 1, axis);
  if (!units || axis % units.value() == 0) return units;
  return row.error(kUnits, std::to_string(units.value()) + " do not divide the axis of " + std::to_string(axis) +
                               " into equal parts");
}

Result<void> read_sizes(const CsvRow& row, LayerShape& shape) {
  MC2_ASSIGN(const auto n, row.whole_number(kN, 1, planner::kMaxSize));
  MC2_ASSIGN(const auto k, row.whole_number(kK, 1, planner::kMaxSize));
  shape.n = n;
  shape.k = k;
  MC2_ASSIGN(shape.units, read_units(row, shape));
  return {};
}

/// The experts and experts_per_token of a line; none if it has neither. Errors: Malformed if only one is given, or the
/// layer is divided.
Result<std::optional<planner::ExpertCount>> read_experts(const CsvRow& row, Parallelism parallelism) {
  if (row.text(kExperts).empty() && row.text(kPerToken).empty()) return std::optional<planner::ExpertCount>();
  if (planner::divides_an_axis(parallelism))
    return row.error(kExperts, "are given, but the layer is divided; leave them empty");
  MC2_ASSIGN(const auto total, row.whole_number(kExperts, 1, planner::kMaxSize));
  MC2_ASSIGN(const auto per_token, row.whole_number(kPerToken, 1, total));
  return std::optional(planner::ExpertCount{total, per_token});
}

Result<LayerShape> read_layer(const CsvRow& row) {
  LayerShape shape;
  MC2_ASSIGN(auto model, read_name(row, kModel));
  MC2_ASSIGN(auto layer, read_name(row, kLayer));
  MC2_ASSIGN(const auto parallelism, row.at(kParallel, planner::parse_parallelism(row.text(kParallel))));
  shape.model = std::move(model);
  shape.layer = std::move(layer);
  shape.parallelism = parallelism;
  MC2_TRY(read_sizes(row, shape));
  MC2_ASSIGN(shape.experts, read_experts(row, parallelism));
  if (!row.text(kCount).empty()) {
    MC2_ASSIGN(shape.count, row.whole_number(kCount, 1, kMaxLayerCount));
  }
  if (!row.text(kDtype).empty()) {
    MC2_ASSIGN(shape.dtype, row.at(kDtype, planner::parse_dtype(row.text(kDtype))));
  }
  return shape;
}

} // namespace
} // namespace layer_table

Result<std::vector<LayerShape>> parse_layer_shapes(std::string_view text, const std::string& file) {
  using namespace layer_table;
  std::vector<LayerShape> layers;
  std::map<std::pair<std::string, std::string>, int> line_of;
  const auto take = [&](const CsvRow& row) -> Result<void> {
    MC2_ASSIGN(auto layer, read_layer(row));
    const auto [earlier, is_new] = line_of.try_emplace({layer.model, layer.layer}, row.line());
    if (!is_new)
      return row.error(kLayer, layer.model + " " + layer.layer + " is named a second time; the first is in line " +
                                   std::to_string(earlier->second));
    layers.push_back(std::move(layer));
    return {};
  };
  MC2_TRY(store::read_csv(text, file, {kColumns, "layer", static_cast<std::size_t>(kMaxLayerCount)}, take));
  return layers;
}

std::string dtype_help(const std::string& whose) {
  return "element type instead of " + whose + ": " +
         list_text(planner::kDTypes, [](planner::DType dtype) { return to_string(dtype); });
}

Result<std::vector<LayerShape>> built_in_layers() {
  std::vector<LayerShape> layers;
  for (const auto& llm : store::built_in_llms()) {
    MC2_ASSIGN(const auto config, store::find_built_in_llm(llm.name));
    for (auto& layer : config.layers()) layers.push_back(std::move(layer));
  }
  return layers;
}

} // namespace mc2::cli
