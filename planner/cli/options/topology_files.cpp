#include "options/topology_files.hpp"

#include <algorithm>
#include <array>

#include "mc2/planner/analytic_model.hpp"
#include "mc2/store/codec.hpp"
#include "options/csv.hpp"
#include "options/document_file.hpp"
#include "options/model_file.hpp"

namespace mc2::cli {
namespace run_table {
namespace {

using profiler::CollectivePoint;

enum Column : std::size_t { kCollective, kRanks, kBytes, kUs };
constexpr std::array kColumns{CsvColumn{"collective", true}, CsvColumn{"ranks", true}, CsvColumn{"bytes", true},
                              CsvColumn{"us", true}};

/// The cell behind a field of planner::CollectiveSpec.
std::size_t column_of(const std::string& field) { return field == "bytes" ? kBytes : kRanks; }

Result<CollectivePoint> read_point(const CsvRow& row, const planner::Topology& topology) {
  const auto collective = planner::parse_collective(row.text(kCollective));
  if (!collective) return row.error(kCollective, kColumns[kCollective].name, collective.error().message);
  MC2_ASSIGN(const auto ranks, row.whole_number(kRanks, kColumns[kRanks].name, 2, planner::kMaxWorldSize));
  MC2_ASSIGN(const auto bytes, row.number(kBytes, kColumns[kBytes].name));
  MC2_ASSIGN(const auto us, row.number(kUs, kColumns[kUs].name));
  if (us <= 0) return row.error(kUs, kColumns[kUs].name, "'" + row.text(kUs) + "' is no time above 0");
  CollectivePoint point;
  point.spec = {collective.value(), bytes, static_cast<int>(ranks)};
  point.us = us;
  if (const auto legal = point.spec.validate(topology); !legal) {
    const std::size_t column = column_of(legal.error().field);
    return row.error(column, kColumns[column].name, legal.error().message);
  }
  return point;
}

/// Of the variant that multiplies the whole operator fastest: others keep back a part of the device for communication.
const planner::CostCurve& fastest_matmul(const planner::CostModel& model, const planner::OpSpec& op) {
  const auto rows = static_cast<double>(planner::traits_of(op.kind).cut_axis_length(op));
  const auto whole_us = [&](const planner::VariantCost& cost) { return cost.compute.curve.time_us(rows); };
  return std::ranges::min_element(model.variants, {}, whole_us)->compute.curve;
}

/// The matmul of a model that was made for other ranks or another m, but for the same matmul otherwise.
Result<planner::CostCurve> matmul_curve(const std::filesystem::path& model_file, const planner::OpSpec& op) {
  MC2_ASSIGN(const auto model, read_model(model_file));
  planner::OpSpec same = model.op;
  same.m = op.m;
  same.world_size = op.world_size;
  if (same == op) return fastest_matmul(model, op);
  return Error{
      ErrorCode::OutOfRange, "--model",
      "describes " + model.op.text() + "; its matmul answers for other m and ranks only, not for " + op.text()};
}

} // namespace
} // namespace run_table

Result<planner::Topology> read_topology(const std::filesystem::path& path) {
  return read_document(path, store::decode_topology);
}

Result<std::vector<profiler::CollectivePoint>> read_points(const std::filesystem::path& path,
                                                           const planner::Topology& topology) {
  using namespace run_table;
  MC2_ASSIGN(const auto content, read_file(path));
  std::vector<CollectivePoint> points;
  const auto take = [&](const CsvRow& row) -> Result<void> {
    MC2_ASSIGN(const auto point, read_point(row, topology));
    points.push_back(point);
    return {};
  };
  MC2_TRY(read_csv(content, path.string(), {kColumns, "point", profiler::kMaxCalibrationPoints}, take));
  return points;
}

Result<planner::CostModel> read_analytic_model(const std::filesystem::path& topology_file,
                                               const std::filesystem::path& model_file, const planner::OpSpec& op) {
  using namespace run_table;
  MC2_ASSIGN(const auto topology, read_topology(topology_file));
  if (model_file.empty()) return planner::analytic_model(topology, op);
  MC2_ASSIGN(const auto matmul, matmul_curve(model_file, op));
  return planner::analytic_model(topology, op, matmul);
}

Result<finder::FoundModel> found_in_topology(const planner::Topology& topology, const planner::OpSpec& op) {
  MC2_ASSIGN(auto model, planner::analytic_model(topology, op));
  return finder::FoundModel{.model = std::move(model), .can_require_significance = false};
}

} // namespace mc2::cli
