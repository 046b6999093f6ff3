#pragma once

#include <filesystem>
#include <vector>

#include "context.hpp"
#include "mc2/finder/models.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/topology.hpp"
#include "mc2/profiler/calibrate_topology.hpp"

namespace mc2::cli {

/// Errors: as read_file; Malformed for a document that is no legal topology.
[[nodiscard]] Result<planner::Topology> read_topology(const std::filesystem::path& path);

/// Measured points: CSV with the columns collective, ranks, bytes and us, in any order.
/// Errors: as read_file and read_csv; Malformed for a cell that is no number of its kind, or not legal on the topology.
[[nodiscard]] Result<std::vector<profiler::CollectivePoint>> read_points(const std::filesystem::path& path,
                                                                         const planner::Topology& topology);

/// A model of `op` on the cluster of a topology file; the matmul comes from a cost model document where one is given.
/// Errors: as read_topology and planner::analytic_model; OutOfRange when the document is of another n, k, type or kind.
[[nodiscard]] Result<planner::CostModel> read_analytic_model(const std::filesystem::path& topology_file,
                                                             const std::filesystem::path& model_file,
                                                             const planner::OpSpec& op);

/// What a topology alone tells of an operator. Errors: as planner::analytic_model.
[[nodiscard]] Result<finder::FoundModel> found_in_topology(const planner::Topology& topology,
                                                           const planner::OpSpec& op);

} // namespace mc2::cli
