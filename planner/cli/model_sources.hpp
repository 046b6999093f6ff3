#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/finder/models.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"

namespace mc2::cli {

/// What a source answers with, and where it came from.
struct SourcedModel {
  /// Shared by the source and whoever plans with it: finder::plan_with.
  std::shared_ptr<const finder::FoundModel> found;
  std::string source;          ///< for people, e.g. "document model.json (Ascend, 8 ranks, HCCS)"
  std::int64_t valid_to_m = 0; ///< the source gives the same answer for every m from the asked one to this one
  /// What tuning kept for this very operator, which is the answer; there is no model then.
  std::shared_ptr<const planner::Plan> tuned = nullptr;
};

/// A place where cost models come from. Threads: may be asked by several at once.
/// Errors: NotFound and the like, naming the source and why it has no answer.
using ModelSource = std::function<Result<SourcedModel>(const planner::OpSpec& op)>;
using ModelSources = std::vector<ModelSource>;

/// The first source that answers; where its model was measured for another n and k, the first with a measured model of
/// the operator itself comes before it. Errors: every source's reason, joined into one line: NotFound, or the code of
/// the first source that could not be read.
[[nodiscard]] Result<SourcedModel> find_model(const ModelSources& sources, const planner::OpSpec& op);

/// Model documents; the first that describes an operator answers for every length of its cut axis.
/// @param may_transfer  whether those of another n and k answer for the rest (planner/transfer.hpp)
/// Errors: InvalidSpec for a file that cannot be read, Malformed naming the file.
[[nodiscard]] Result<ModelSource> open_document_source(const std::vector<std::string>& files, bool may_transfer);

/// Analytic models from topology files, for machines that nobody can measure; the first that answers.
/// Errors: as read_topology.
[[nodiscard]] Result<ModelSource> open_topology_source(const std::vector<std::string>& files);

/// One operator of which several m are asked.
struct OpFamily {
  planner::OpSpec op;              ///< m is ignored
  std::vector<std::int64_t> all_m; ///< ascending
};

/// What the finder finds in the store for `families`, tuned plans and models, read now, because one connection serves
/// one thread. Asked for anything else it finds nothing.
/// @param options  which plans will be made with: tuned ones answer for those that they were tuned with
/// Errors: as StoreOptions::open; Cancelled on an interrupt.
[[nodiscard]] Result<ModelSource> open_store_source(const StoreOptions& store, const MachineOptions& machine,
                                                    std::span<const OpFamily> families,
                                                    const planner::PlanOptions& options, bool may_transfer = true);

} // namespace mc2::cli
