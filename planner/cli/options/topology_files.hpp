#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/planner/topology.hpp"
#include "mc2/profiler/calibrate_topology.hpp"

namespace mc2::cli {

/// The help of an option whose value read_topology() takes.
inline constexpr const char* kTopologyHelp =
    "plan without measurements for the cluster that this document describes, or for a published cluster, "
    "e.g. dgx_h100; an unknown name lists the published ones";

/// Reads a topology document, or finds a published cluster by its name (store::built_in_topologies).
/// Errors: as read_file; Malformed for a document that is no legal topology; UnknownName for a name.
[[nodiscard]] Result<planner::Topology> read_topology(const std::string& name);

/// Errors: InvalidSpec naming --device if it is given together with a document (--model or --topology).
[[nodiscard]] Result<void> check_device(const std::string& device, bool has_document);

/// Errors: InvalidSpec naming --topology if --store or --no-transfer is given beside it, which change nothing there.
/// @param is_named  whether --store is given
[[nodiscard]] Result<void> check_topology_alone(bool is_named, bool no_transfer);

/// Reads measured points from CSV with the columns collective, ranks, bytes and us, in any order.
/// Errors: as read_file and read_csv; Malformed for a cell with an illegal value, also on this topology.
[[nodiscard]] Result<std::vector<profiler::CollectivePoint>> read_points(const std::filesystem::path& path,
                                                                         const planner::Topology& topology);

} // namespace mc2::cli
