#include "options/topology_files.hpp"

#include <array>
#include <utility>

#include "mc2/store/codec.hpp"
#include "mc2/store/csv.hpp"
#include "mc2/store/topologies.hpp"
#include "options/document_file.hpp"

namespace mc2::cli {
namespace run_table {
namespace {

using store::CsvColumn, store::CsvRow;

using profiler::CollectivePoint;

enum Column : std::size_t { kCollective, kRanks, kBytes, kUs };
constexpr std::array kColumns{CsvColumn{"collective", true}, CsvColumn{"ranks", true}, CsvColumn{"bytes", true},
                              CsvColumn{"us", true}};

/// The column of a field of planner::CollectiveSpec.
std::size_t column_of(const std::string& field) { return field == "bytes" ? kBytes : kRanks; }

Result<CollectivePoint> read_point(const CsvRow& row, const planner::Topology& topology) {
  MC2_ASSIGN(const auto collective, row.at(kCollective, planner::parse_collective(row.text(kCollective))));
  MC2_ASSIGN(const auto ranks, row.whole_number(kRanks, 2, planner::kMaxWorldSize));
  MC2_ASSIGN(const auto bytes, row.number(kBytes));
  MC2_ASSIGN(const auto us, row.number(kUs));
  if (us <= 0) return row.error(kUs, "'" + row.text(kUs) + "' is no time above 0");
  CollectivePoint point;
  point.spec = {collective, bytes, static_cast<int>(ranks)};
  point.us = us;
  if (const auto legal = point.spec.validate(topology); !legal) {
    const std::size_t column = column_of(legal.error().field);
    return row.error(column, legal.error().message);
  }
  return point;
}

} // namespace
} // namespace run_table

Result<planner::Topology> read_topology(const std::string& name) {
  return names_a_file(name) ? read_document(name, store::decode_topology) : store::find_built_in_topology(name);
}

Result<void> check_device(const std::string& device, bool has_document) {
  if (device.empty() || !has_document) return {};
  return Error{ErrorCode::InvalidSpec, "--device", "cannot be combined with --model or --topology; give one of them"};
}

Result<void> check_topology_alone(bool is_named, bool no_transfer) {
  for (const auto& [is_given, option] : {std::pair(is_named, "--store"), {no_transfer, "--no-transfer"}})
    if (is_given)
      return Error{ErrorCode::InvalidSpec, "--topology",
                   "plans without kept models and without transfer; leave out " + std::string(option)};
  return {};
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
  MC2_TRY(store::read_csv(content, path.string(), {kColumns, "point", profiler::kMaxCalibrationPoints}, take));
  return points;
}

} // namespace mc2::cli
