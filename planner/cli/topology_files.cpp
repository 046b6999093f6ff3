#include "topology_files.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "csv.hpp"
#include "mc2/planner/analytic_model.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::cli {
namespace {

using profiler::CollectivePoint;

constexpr std::array<std::string_view, 4> kColumns{"collective", "ranks", "bytes", "us"};

Result<void> check_columns(const CsvTable& table, const std::string& file) {
  for (const auto& column : kColumns)
    if (std::count(table.heading.begin(), table.heading.end(), column) != 1)
      return Error{ErrorCode::Malformed, file,
                   "must have a column '" + std::string(column) + "' once; legal: collective, ranks, bytes, us"};
  if (table.heading.size() != kColumns.size())
    return Error{ErrorCode::Malformed, file, "has an unknown column; legal: collective, ranks, bytes, us"};
  return {};
}

template <typename Number>
Result<void> read_number(const std::string& column, const std::string& cell, Number& target) {
  const auto [end, failure] = std::from_chars(cell.data(), cell.data() + cell.size(), target);
  if (failure == std::errc() && end == cell.data() + cell.size()) return {};
  return Error{ErrorCode::Malformed, column, "'" + cell.substr(0, 32) + "' is no number that can be used here"};
}

Result<void> set_cell(const std::string& column, const std::string& cell, CollectivePoint& point) {
  if (column == "ranks") return read_number(column, cell, point.spec.world_size);
  if (column == "bytes") return read_number(column, cell, point.spec.message_bytes);
  if (column == "us") return read_number(column, cell, point.us);
  const auto collective = planner::parse_collective(cell);
  if (!collective) return collective.error();
  point.spec.collective = collective.value();
  return {};
}

Result<CollectivePoint> read_point(const std::vector<std::string>& heading, const CsvRow& row) {
  CollectivePoint point;
  for (std::size_t i = 0; i < heading.size(); ++i)
    if (auto set = set_cell(heading[i], row.cells[i], point); !set) return set.error();
  return point;
}

/// The matmul of a model that was made for other ranks or another m, but for the same matmul otherwise.
Result<planner::CostCurve> matmul_curve(const std::filesystem::path& model_file, const planner::OpSpec& op) {
  const auto content = read_file(model_file);
  if (!content) return content.error();
  const auto model = store::decode_model(content.value());
  if (!model) return document_error(model_file, model.error());
  planner::OpSpec same = model.value().op;
  same.m = op.m;
  same.world_size = op.world_size;
  if (same == op) return model.value().variants.front().compute.curve;
  return Error{ErrorCode::OutOfRange, "--model",
               "describes " + model.value().op.text() + "; its matmul answers for other m and ranks only, not for " +
                   op.text()};
}

} // namespace

Result<planner::Topology> read_topology(const std::filesystem::path& path) {
  const auto content = read_file(path);
  if (!content) return content.error();
  auto topology = store::decode_topology(content.value());
  if (!topology) return document_error(path, topology.error());
  return topology;
}

Result<std::vector<CollectivePoint>> read_points(const std::filesystem::path& path) {
  const auto content = read_file(path);
  if (!content) return content.error();
  const auto table = parse_csv(content.value(), path.string(), profiler::kMaxCalibrationPoints, "points");
  if (!table) return table.error();
  if (auto columns = check_columns(table.value(), path.string()); !columns) return columns.error();
  std::vector<CollectivePoint> points;
  for (const CsvRow& row : table.value().rows) {
    const auto point = read_point(table.value().heading, row);
    if (!point)
      return Error{ErrorCode::Malformed, path.string() + ":" + std::to_string(row.line), point.error().text()};
    points.push_back(point.value());
  }
  return points;
}

Result<planner::CostModel> read_analytic_model(const std::filesystem::path& topology_file,
                                               const std::filesystem::path& model_file, const planner::OpSpec& op) {
  const auto topology = read_topology(topology_file);
  if (!topology) return topology.error();
  if (model_file.empty()) return planner::analytic_model(topology.value(), op);
  const auto matmul = matmul_curve(model_file, op);
  if (!matmul) return matmul.error();
  return planner::analytic_model(topology.value(), op, matmul.value());
}

} // namespace mc2::cli
