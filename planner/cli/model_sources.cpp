#include "model_sources.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "mc2/finder/models.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/planner/analytic_model.hpp"
#include "mc2/planner/transfer.hpp"
#include "mc2/store/codec.hpp"
#include "options/model_file.hpp"
#include "options/topology_files.hpp"
#include "pages/terminal.hpp"

namespace mc2::cli {
namespace {

using planner::OpSpec;

/// Makes the answer of a source. Where columns are cut, a model is valid for its own m only.
SourcedModel sourced(finder::FoundModel found, const std::string& origin, std::int64_t valid_to_m) {
  if (planner::cut_axis(found.model.op) == planner::CutAxis::Columns) valid_to_m = found.model.op.m;
  const std::string label = found.model.fingerprint.label();
  return {std::make_shared<const finder::FoundModel>(std::move(found)), origin + " (" + label + ")", valid_to_m};
}

/// The model that the finder finds for the first of `all_m`, which ascend. Its valid_to_m is the last of them with the
/// same answer.
Result<SourcedModel> kept_model(const finder::Kept& kept, const finder::PlanQuestion& asked,
                                std::span<const std::int64_t> all_m) {
  const auto find = [&](std::int64_t m) {
    finder::PlanQuestion question = asked;
    question.op.m = m;
    return finder::find_model({.given = {}, .kept = kept}, question);
  };
  MC2_ASSIGN(auto answer, find(all_m.front()));
  const auto answers = [&](std::int64_t i) {
    const auto there = find(all_m[static_cast<std::size_t>(i)]);
    return there && finder::is_same_answer(there.value(), answer);
  };
  const auto last = static_cast<std::size_t>(finder::last_where(0, std::ssize(all_m) - 1, answers));
  if (answer.transfer && last > 0) {
    MC2_ASSIGN(answer, find(all_m[last])); // its curves reach to the m that it was found for
  }
  const auto& transfer = answer.transfer;
  const std::string origin =
      "kept model " + (transfer ? transfer->reason : "of m=" + std::to_string(answer.model.op.m));
  return sourced(std::move(answer), origin, all_m[last]);
}

std::string any_length(const OpSpec& op) {
  return planner::cut_axis(op) == planner::CutAxis::Rows ? "for any m: " : "for any n: ";
}

/// A machine, and the operators that were tuned on it.
struct TunedMachine {
  Result<planner::Fingerprint> fingerprint;
  std::set<OpSpec> operators;
};

/// The machine with the operators that were tuned with these options.
TunedMachine tuned_machine(finder::SharedLayers& layers, Result<planner::Fingerprint> fingerprint,
                           const planner::PlanOptions& options) {
  TunedMachine result{std::move(fingerprint), {}};
  if (!result.fingerprint) return result;
  const planner::Fingerprint& machine = result.fingerprint.value();
  const std::string digest = store::digest(machine.canonical_text());
  const std::string purpose = finder::tuned_purpose({.op = {}, .machine = machine, .options = options});
  for (auto& key : layers.use([&](const store::Layers& stores) { return stores.list_plan_keys(digest); }))
    if (key.purpose == purpose) result.operators.insert(std::move(key.op));
  return result;
}

class StoreSource {
 public:
  /// Reads the plans that tuning kept for one operator.
  void load_tuned(const finder::Kept& stores, const TunedMachine& machine, const OpFamily& family,
                  const planner::PlanOptions& options) {
    const std::vector<finder::PlanSource> places{finder::kept_plans(stores)};
    for (const std::int64_t m : family.all_m) {
      OpSpec op = family.op;
      op.m = m;
      if (!machine.operators.contains(op)) continue;
      auto answer = finder::find_plan(places, {.op = op, .machine = machine.fingerprint.value(), .options = options});
      if (!answer) continue; // damaged, so the model answers
      SourcedModel& found = kept_[planner::of_any_length(op)].tuned[m];
      found.source = "tuned " + answer.value().stored.created_at;
      found.valid_to_m = m;
      found.tuned = std::make_shared<const planner::Plan>(std::move(answer.value().stored.plan));
    }
  }

  /// Reads the models of one operator. Does not ask again for an m that an earlier answer is valid for.
  void load_models(const finder::Kept& stores, const Result<planner::Fingerprint>& machine, const OpFamily& family,
                   bool may_transfer) {
    std::vector<std::int64_t> all_m = family.all_m;
    std::ranges::sort(all_m);
    for (std::size_t i = 0; i < all_m.size(); ++i) {
      OpSpec op = family.op;
      op.m = all_m[i];
      Kept& kept = kept_[planner::of_any_length(op)]; // layers of equal shape have one entry
      const bool is_known = !kept.models.empty() && op.m <= kept.models.back().valid_to_m;
      // The m decides which model answers, but not whether one does: after a failure no other m is asked for.
      if (is_known || kept.failure) continue;
      auto answer = machine ? kept_model(stores, {.op = op, .machine = machine.value(), .may_transfer = may_transfer},
                                         std::span(all_m).subspan(i))
                            : Result<SourcedModel>(machine.error());
      if (answer)
        kept.models.push_back(std::move(answer).value());
      else
        kept.failure = Error{answer.error().code, "", any_length(op) + answer.error().text()};
    }
  }

  [[nodiscard]] Result<SourcedModel> operator()(const OpSpec& op) const {
    const auto kept = kept_.find(planner::of_any_length(op));
    if (kept != kept_.end()) {
      const auto tuned = kept->second.tuned.lower_bound(op.m); // at this m or the next larger one
      const bool is_followed = tuned != kept->second.tuned.end();
      if (is_followed && tuned->first == op.m) return tuned->second;
      for (SourcedModel model : kept->second.models) {
        if (op.m > model.valid_to_m) continue;
        if (is_followed) model.valid_to_m = std::min(model.valid_to_m, tuned->first - 1);
        return model;
      }
      if (kept->second.failure) return *kept->second.failure;
    }
    return Error{ErrorCode::NotFound, "", "store: no model was looked up for " + op.text()};
  }

 private:
  struct Kept {
    std::map<std::int64_t, SourcedModel> tuned; ///< by m
    std::vector<SourcedModel> models;           ///< ascending valid_to_m
    std::optional<Error> failure;
  };
  std::map<OpSpec, Kept> kept_;
};

/// Model documents, and the file of each.
struct Documents {
  finder::ModelPlaces places;
  std::vector<std::string> files;             ///< of places.given, in the same order
  std::vector<planner::Fingerprint> machines; ///< each once
};

Result<Documents> read_documents(const std::vector<std::string>& files) {
  Documents result{.places = {}, .files = files, .machines = {}};
  for (const auto& file : files) {
    MC2_ASSIGN(auto model, read_model(file));
    if (std::ranges::find(result.machines, model.fingerprint) == result.machines.end())
      result.machines.push_back(model.fingerprint);
    result.places.given.push_back(std::move(model));
  }
  return result;
}

/// Whether an answer for another machine is better than `best`: models of the operator itself come first, the nearest
/// in m before all.
bool is_nearer(const finder::FoundModel& found, const finder::FoundModel& best, const OpSpec& op) {
  if (found.transfer.has_value() || best.transfer.has_value()) return !found.transfer && best.transfer;
  return planner::length_distance(found.model.op, op) < planner::length_distance(best.model.op, op);
}

/// The file of the document that gave the answer, which was not transferred.
const std::string& file_of(const Documents& documents, const planner::CostModel& answer) {
  const auto is_it = [&](const planner::CostModel& model) {
    return model.op == answer.op && model.fingerprint == answer.fingerprint;
  };
  const auto& given = documents.places.given;
  return documents.files[static_cast<std::size_t>(std::ranges::find_if(given, is_it) - given.begin())];
}

/// What the finder answers from the documents, machine by machine.
Result<SourcedModel> model_among(const Documents& documents, const OpSpec& op, bool may_transfer) {
  std::optional<finder::FoundModel> best;
  for (const auto& machine : documents.machines) {
    auto found = finder::find_model(documents.places, {.op = op, .machine = machine, .may_transfer = may_transfer});
    if (!found && found.error().code != ErrorCode::NotFound) return found.error();
    if (found && (!best || is_nearer(found.value(), *best, op))) best = std::move(found).value();
  }
  if (!best)
    return Error{ErrorCode::NotFound, "",
                 "--model: no document describes " + op.text() + " or another length of its cut axis" +
                     (may_transfer ? ", nor one near enough to answer for it" : "; transfer is ruled out")};
  // Which of several documents is the nearest depends on m, and so do the curves of a transferred one.
  const std::int64_t valid_to_m = documents.files.size() > 1 || best->transfer ? op.m : planner::kMaxSize;
  const std::string origin =
      best->transfer ? "document, " + best->transfer->reason : "document " + file_of(documents, best->model);
  return sourced(*std::move(best), origin, valid_to_m);
}

bool is_transferred(const SourcedModel& answer) { return !answer.tuned && answer.found->transfer.has_value(); }
bool is_described(const SourcedModel& answer) {
  return !answer.tuned && planner::has_analytic_curve(answer.found->model);
}

} // namespace

/// The code of a source that could not be read takes precedence over NotFound.
Result<SourcedModel> find_model(const ModelSources& sources, const OpSpec& op) {
  std::string reasons;
  ErrorCode code = ErrorCode::NotFound;
  std::optional<SourcedModel> transferred; // used unless a measured model of the operator itself follows
  for (const auto& source : sources) {
    auto answer = source(op);
    if (!answer) {
      if (code == ErrorCode::NotFound) code = answer.error().code;
      reasons += (reasons.empty() ? "" : "; ") + answer.error().text();
    } else if (is_transferred(answer.value())) {
      if (!transferred) transferred = std::move(answer).value();
    } else if (!transferred || !is_described(answer.value())) {
      return answer;
    }
  }
  if (transferred) return *std::move(transferred);
  return Error{code, "", reasons};
}

Result<ModelSource> open_document_source(const std::vector<std::string>& files, bool may_transfer) {
  MC2_ASSIGN(auto documents, read_documents(files));
  return ModelSource([documents = std::move(documents), may_transfer](const OpSpec& op) {
    return model_among(documents, op, may_transfer);
  });
}

Result<ModelSource> open_topology_source(const std::vector<std::string>& files) {
  std::vector<std::pair<std::string, planner::Topology>> topologies;
  for (const auto& file : files) {
    MC2_ASSIGN(auto topology, read_topology(file));
    topologies.emplace_back(file, std::move(topology));
  }
  return ModelSource([topologies = std::move(topologies)](const OpSpec& op) -> Result<SourcedModel> {
    std::string reasons;
    for (const auto& [file, topology] : topologies) {
      auto model = planner::analytic_model(topology, op);
      if (model) return sourced({.model = std::move(model).value()}, "topology " + file, planner::kMaxSize);
      reasons += (reasons.empty() ? "" : "; ") + file + ": " + model.error().text();
    }
    return Error{ErrorCode::NotFound, "", "--topology: " + reasons};
  });
}

Result<ModelSource> open_store_source(const StoreOptions& store, const MachineOptions& machine,
                                      std::span<const OpFamily> families, const planner::PlanOptions& options,
                                      bool may_transfer) {
  MC2_ASSIGN(auto layers, store.open(StoreUse::Read));
  finder::SharedLayers shared(layers);
  const finder::Kept kept = finder::kept_in(shared);
  StoreSource source;
  std::map<int, TunedMachine> machines; ///< by ranks
  for (const OpFamily& family : families) {
    if (is_interrupted()) return Error{ErrorCode::Cancelled, "", "interrupted before any plan; nothing was written"};
    const int ranks = family.op.world_size;
    auto found = machines.find(ranks);
    if (found == machines.end())
      found = machines.emplace(ranks, tuned_machine(shared, machine.fingerprint(ranks), options)).first;
    source.load_tuned(kept, found->second, family, options);
    source.load_models(kept, found->second.fingerprint, family, may_transfer);
  }
  return ModelSource(std::move(source));
}

} // namespace mc2::cli
