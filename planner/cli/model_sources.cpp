#include "model_sources.hpp"

#include <map>
#include <optional>
#include <utility>

#include "mc2/finder/models.hpp"
#include "mc2/planner/analytic_model.hpp"
#include "model_file.hpp"
#include "terminal.hpp"
#include "topology_files.hpp"

namespace mc2::cli {
namespace {

using planner::CostModel;
using planner::OpSpec;

/// What a model answers for: its operator at any length of the cut axis, which is 0 in the key
/// (planner::has_same_block_costs).
OpSpec key_of(OpSpec op) {
  (planner::cut_axis(op) == planner::CutAxis::Rows ? op.m : op.n) = 0;
  return op;
}

/// Where columns are cut, another m is another operator.
FoundModel found(CostModel model, const std::string& origin, std::int64_t valid_to_m) {
  if (planner::cut_axis(model.op) == planner::CutAxis::Columns) valid_to_m = model.op.m;
  const std::string label = model.fingerprint.label();
  return {std::make_shared<const CostModel>(std::move(model)), origin + " (" + label + ")", valid_to_m, true};
}

class DocumentSource : public ModelSource {
 public:
  void add(const std::string& file, CostModel model) {
    const OpSpec key = key_of(model.op);
    models_.try_emplace(key, found(std::move(model), "document " + file, planner::kMaxSize));
  }

  [[nodiscard]] Result<FoundModel> find(const OpSpec& op) const override {
    const auto kept = models_.find(key_of(op));
    if (kept != models_.end()) return kept->second;
    return Error{ErrorCode::NotFound, "",
                 "--model: no document describes " + op.text() + " or another length of its cut axis"};
  }

 private:
  std::map<OpSpec, FoundModel> models_;
};

class TopologySource : public ModelSource {
 public:
  void add(const std::string& file, planner::Topology topology) { topologies_.push_back({file, std::move(topology)}); }

  [[nodiscard]] Result<FoundModel> find(const OpSpec& op) const override {
    std::string reasons;
    for (const auto& [file, topology] : topologies_) {
      auto model = planner::analytic_model(topology, op);
      if (model) {
        FoundModel answer = found(std::move(model).value(), "topology " + file, planner::kMaxSize);
        answer.can_require_significance = false;
        return answer;
      }
      reasons += (reasons.empty() ? "" : "; ") + file + ": " + model.error().text();
    }
    return Error{ErrorCode::NotFound, "", "--topology: " + reasons};
  }

 private:
  struct Named {
    std::string file;
    planner::Topology topology;
  };
  std::vector<Named> topologies_;
};

/// What the finder finds in the store, and for which other m it is the answer, too.
Result<FoundModel> kept_model(const finder::Kept& kept, const planner::Fingerprint& machine, const OpSpec& op,
                              bool may_transfer) {
  MC2_ASSIGN(auto answer, finder::find_model({.given = {}, .kept = kept},
                                             {.op = op, .machine = machine, .may_transfer = may_transfer}));
  const std::int64_t model_m = answer.model.op.m;
  const auto& transfer = answer.transfer;
  const std::string origin = "kept model " + (transfer ? transfer->reason : "of m=" + std::to_string(model_m));
  // The store prefers the next larger model; without a larger one the largest answers for all further m.
  const bool is_largest = transfer || model_m < op.m;
  FoundModel result = found(std::move(answer.model), origin, is_largest ? planner::kMaxSize : model_m);
  if (transfer) result.transfer = std::make_shared<const planner::Transfer>(*transfer);
  result.is_kept = true;
  return result;
}

std::string any_length(const OpSpec& op) {
  return planner::cut_axis(op) == planner::CutAxis::Rows ? "for any m: " : "for any n: ";
}

class StoreSource : public ModelSource {
 public:
  /// Asks the store for one operator, as rarely as its answers allow.
  void load(const finder::Kept& stores, const Result<planner::Fingerprint>& machine, const OpFamily& family,
            bool may_transfer) {
    for (const std::int64_t m : family.all_m) {
      OpSpec op = family.op;
      op.m = m;
      Kept& kept = kept_[key_of(op)]; // layers of equal shape are one operator
      const bool is_known = !kept.models.empty() && m <= kept.models.back().valid_to_m;
      // Which length is asked decides which model answers, but not whether one does.
      if (is_known || kept.failure) continue;
      auto answer =
          machine ? kept_model(stores, machine.value(), op, may_transfer) : Result<FoundModel>(machine.error());
      if (answer)
        kept.models.push_back(std::move(answer).value());
      else
        kept.failure = Error{answer.error().code, "", any_length(op) + answer.error().text()};
    }
  }

  [[nodiscard]] Result<FoundModel> find(const OpSpec& op) const override {
    const auto kept = kept_.find(key_of(op));
    if (kept != kept_.end()) {
      for (const FoundModel& model : kept->second.models)
        if (op.m <= model.valid_to_m) return model;
      if (kept->second.failure) return *kept->second.failure;
    }
    return Error{ErrorCode::NotFound, "", "store: was not asked for " + op.text()};
  }

 private:
  struct Kept {
    std::vector<FoundModel> models; ///< ascending valid_to_m
    std::optional<Error> failure;
  };
  std::map<OpSpec, Kept> kept_;
};

} // namespace

/// A source that could not be read outweighs those that hold nothing.
Result<FoundModel> find_model(const ModelSources& sources, const OpSpec& op) {
  std::string reasons;
  ErrorCode code = ErrorCode::NotFound;
  for (const auto& source : sources) {
    auto answer = source->find(op);
    if (answer) return answer;
    if (code == ErrorCode::NotFound) code = answer.error().code;
    reasons += (reasons.empty() ? "" : "; ") + answer.error().text();
  }
  return Error{code, "", reasons};
}

Result<std::unique_ptr<ModelSource>> open_document_source(const std::vector<std::string>& files) {
  auto source = std::make_unique<DocumentSource>();
  for (const auto& file : files) {
    MC2_ASSIGN(auto model, read_model(file));
    source->add(file, std::move(model));
  }
  return std::unique_ptr<ModelSource>(std::move(source));
}

Result<std::unique_ptr<ModelSource>> open_topology_source(const std::vector<std::string>& files) {
  auto source = std::make_unique<TopologySource>();
  for (const auto& file : files) {
    MC2_ASSIGN(auto topology, read_topology(file));
    source->add(file, std::move(topology));
  }
  return std::unique_ptr<ModelSource>(std::move(source));
}

Result<std::unique_ptr<ModelSource>> open_store_source(const StoreOptions& store, const MachineOptions& machine,
                                                       std::span<const OpFamily> families, bool may_transfer) {
  MC2_ASSIGN(auto layers, store.open(StoreUse::Read));
  finder::SharedLayers shared(layers);
  const finder::Kept kept = finder::kept_in(shared);
  auto source = std::make_unique<StoreSource>();
  std::map<int, Result<planner::Fingerprint>> fingerprints; ///< by ranks
  for (const OpFamily& family : families) {
    if (is_interrupted()) return Error{ErrorCode::Cancelled, "", "interrupted before any plan; nothing was written"};
    const int ranks = family.op.world_size;
    auto fingerprint = fingerprints.find(ranks);
    if (fingerprint == fingerprints.end()) fingerprint = fingerprints.emplace(ranks, machine.fingerprint(ranks)).first;
    source->load(kept, fingerprint->second, family, may_transfer);
  }
  return std::unique_ptr<ModelSource>(std::move(source));
}

} // namespace mc2::cli
