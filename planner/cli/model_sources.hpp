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

/// The answer of a source, and where it came from.
struct SourcedModel {
  /// Shared by the source and its users, who plan by finder::plan_with.
  std::shared_ptr<const finder::FoundModel> found;
  std::string source;          ///< for people, e.g. "document model.json (Ascend, 8 ranks, HCCS)"
  std::int64_t valid_to_m = 0; ///< the answer is the same for every m from the asked one to this one
  /// If set, the answer is this plan, which tuning kept for the operator itself, and `found` is null.
  std::shared_ptr<const planner::Plan> tuned = nullptr;
};

/// A place that cost models come from. Threads: several may call it at once. Errors: NotFound and the like, with the
/// source and why it has no answer.
using ModelSource = std::function<Result<SourcedModel>(const planner::OpSpec& op)>;
using ModelSources = std::vector<ModelSource>;

/// Asks the sources in order and returns the first answer. If that is a model of another n and k, a later source with a
/// measured model of the operator itself takes precedence. Errors: NotFound, or the code of the first source that could
/// not be read, with the reasons of all sources in one line.
[[nodiscard]] Result<SourcedModel> find_model(const ModelSources& sources, const planner::OpSpec& op);

/// A source of model documents, by finder::find_model(). Of several documents of an operator, the one of the nearest
/// length of the cut axis answers, whatever their order; they may be of several machines.
/// @param may_transfer  whether models of another n and k answer for other operators (planner/transfer.hpp)
/// Errors: InvalidSpec for a file that cannot be read, Malformed naming the file.
[[nodiscard]] Result<ModelSource> open_document_source(const std::vector<std::string>& files, bool may_transfer);

/// A source of analytic models from topology files, for machines that cannot be measured. The first file with an answer
/// gives it.
/// Errors: as read_topology.
[[nodiscard]] Result<ModelSource> open_topology_source(const std::vector<std::string>& files);

/// An operator at several m.
struct OpFamily {
  planner::OpSpec op;              ///< m is ignored
  std::vector<std::int64_t> all_m; ///< ascending
};

/// A source of the tuned plans and models that the finder finds in the store for `families`; for other operators it has
/// no answer. Reads all of them now, because a connection to the store serves one thread only.
/// @param options  that plans will be made with; only plans tuned with the same options answer
/// Errors: as StoreOptions::open; Cancelled on an interrupt.
[[nodiscard]] Result<ModelSource> open_store_source(const StoreOptions& store, const MachineOptions& machine,
                                                    std::span<const OpFamily> families,
                                                    const planner::PlanOptions& options, bool may_transfer = true);

} // namespace mc2::cli
