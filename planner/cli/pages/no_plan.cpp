#include "pages/no_plan.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::cli {
namespace {

constexpr int kMostSeen = 1000;
const std::string kTheMachine = "the machine";

/// The options in which a kept plan differs from the question, and how far it is from the question.
struct Distance {
  std::vector<std::string> options;
  double value = 0;

  void add(bool is_different, const std::string& option, double weight) {
    if (!is_different) return;
    options.push_back(option);
    value += weight;
  }
};

Distance distance_to(const store::Listed& kept, const planner::OpSpec& op, const std::string& machine) {
  const planner::OpSpec& other = kept.key.op;
  Distance distance;
  distance.add(other.kind != op.kind, "--op", 64);
  distance.add(other.dtype != op.dtype, "--dtype", 16);
  distance.add(other.world_size != op.world_size, "--ranks", 8);
  distance.add(other.n != op.n, "--n", 4);
  distance.add(other.k != op.k, "--k", 4);
  const double m_ratio = static_cast<double>(other.m) / static_cast<double>(op.m);
  distance.add(other.m != op.m, "--m", 1 + std::min(std::abs(std::log2(m_ratio)), 20.0) / 40);
  distance.add(other.epilogue != op.epilogue, "the epilogue", 2);
  distance.add(other.tables != op.tables, "the tables", 2);
  distance.add(other.experts != op.experts, "the experts", 2);
  distance.add(other.experts_per_rank != op.experts_per_rank, "--experts-per-rank", 2);
  distance.add(kept.key.fingerprint_digest != machine, kTheMachine, 32);
  return distance;
}

constexpr std::size_t kMostDifferences = 3;

/// The cut of a plan that was made for the question's operator on another machine; empty for a model.
std::string cut_there(const store::Listed& kept, const store::Store& store) {
  const auto found = store.find_plan(kept.digest);
  if (!found) return "";
  const planner::Plan& plan = found.value().plan;
  return "; its plan is " + plan.cut.text() + ", " + plan.variant.text() + ", and was not tried here";
}

/// The kept plans and models; none where they cannot be read.
std::vector<store::Listed> kept_in(const store::Store& store) {
  const store::ListFilter filter{.limit = kMostSeen};
  auto kept = store.list_plans(filter);
  if (!kept) return {};
  if (const auto models = store.list_models(filter))
    kept.value().insert(kept.value().end(), models.value().begin(), models.value().end());
  return std::move(kept).value();
}

std::string nearest_kept(const planner::OpSpec& op, const planner::Fingerprint& machine, const store::Store& store) {
  const auto kept = kept_in(store);
  if (kept.empty()) return "nothing is kept there yet";
  const std::string here = store::digest(machine);
  const auto nearest =
      std::ranges::min_element(kept, {}, [&](const store::Listed& one) { return distance_to(one, op, here).value; });
  auto options = distance_to(*nearest, op, here).options;
  if (options.empty())
    return "a plan of the same operator that was raced without a model; it is valid only for the options that it was "
           "raced with";
  if (options.back() == kTheMachine)
    if (const auto machines = store.list_fingerprints())
      for (const auto& there : machines.value())
        if (there.digest == nearest->key.fingerprint_digest)
          options.back() = machine_option(machine, there.fingerprint);
  const bool is_machine_alone = options.size() == 1 && options.front().starts_with(kTheMachine);
  return nearest->key.op.text() + "; different: " + and_text(options) +
         (is_machine_alone ? cut_there(*nearest, store) : "");
}

/// The operator of the newest samples that a model of `op` could be fitted to.
std::optional<planner::OpSpec> sampled(const planner::OpSpec& op, const planner::Fingerprint& machine,
                                       const store::Store& store) {
  const auto batches = store.list_samples(store::filter_of_equal_costs(op, machine));
  if (!batches) return std::nullopt;
  for (const store::Listed& batch : batches.value())
    if (planner::has_same_block_costs(batch.key.op, op)) return batch.key.op;
  return std::nullopt;
}

/// The command with the options of operator and machine, without those that have their default.
std::string command_of(const char* command, const planner::OpSpec& op, const planner::Fingerprint& machine) {
  std::string text = std::string("mc2 ") + command;
  const auto add = [&](const std::string& option, const std::string& value) { text += " --" + option + " " + value; };
  const OpOptions operator_defaults;
  const MachineOptions machine_defaults;
  if (to_string(op.kind) != operator_defaults.kind) add("op", std::string(to_string(op.kind)));
  add("m", std::to_string(op.m));
  add("n", std::to_string(op.n));
  add("k", std::to_string(op.k));
  if (to_string(op.dtype) != operator_defaults.dtype) add("dtype", std::string(to_string(op.dtype)));
  if (op.world_size != operator_defaults.ranks) add("ranks", std::to_string(op.world_size));
  if (op.experts_per_rank != 1) add("experts-per-rank", std::to_string(op.experts_per_rank));
  if (op.epilogue.has_bias) text += " --bias";
  if (op.epilogue.has_residual) text += " --residual";
  if (op.epilogue.norm != planner::Norm::None) add("norm", std::string(to_string(op.epilogue.norm)));
  if (op.experts) {
    add("experts", std::to_string(op.experts->count));
    add("top-k", std::to_string(op.experts->top_k));
  }
  if (op.tables) {
    add("tables", std::to_string(op.tables->table_count));
    add("table-rows", std::to_string(op.tables->row_count));
    if (op.tables->pooling != planner::Pooling::Sum) add("pooling", std::string(to_string(op.tables->pooling)));
  }
  const std::string backend(machine.field("backend")), link(machine.field("link"));
  if (!backend.empty() && backend != machine_defaults.backend) add("backend", backend);
  if (backend == machine_defaults.backend && !link.empty() && link != machine_defaults.link) add("link", link);
  constexpr std::string_view kVirtual = "virtual compute ";
  const std::string emulation(machine.field("emulation"));
  if (const auto at = emulation.find(kVirtual); at != std::string::npos)
    add("virtual-compute", emulation.substr(at + kVirtual.size()));
  if (machine.field("pinning") == "none") text += " --no-pin";
  if (backend != "mpi") return text;
  const std::string_view nodes = machine.field("nodes");
  const bool has_hosts = !nodes.empty() && nodes != "1"; // the plan is of where its ranks are
  return std::string("mpirun ") + (has_hosts ? "--hostfile HOSTS_OF_THIS_JOB " : "") + "-np " +
         std::to_string(op.world_size) + " " + text;
}

} // namespace

std::string machine_option(const planner::Fingerprint& here, const planner::Fingerprint& there) {
  for (const char* name : {"backend", "link"})
    if (here.field(name) != there.field(name)) return "--" + std::string(name) + " " + std::string(there.field(name));
  auto differences = here.differences(there);
  if (differences.size() > kMostDifferences) {
    const std::size_t left_out = differences.size() - kMostDifferences;
    differences.resize(kMostDifferences);
    differences.push_back("and " + std::to_string(left_out) + " more");
  }
  return kTheMachine + (differences.empty() ? "" : " (" + list_text(differences, "; ") + ")");
}

std::string tune_command(const planner::OpSpec& op, const planner::Fingerprint& machine) {
  return command_of("tune", op, machine);
}

std::string how_to_make_one(const planner::OpSpec& op, const planner::Fingerprint& machine) {
  const auto backend = executor::find_backend(machine.field("backend"));
  const auto supported = backend ? backend.value()->supports(op) : Result<void>();
  return "make one: " + (supported ? tune_command(op, machine) : "not on this machine: " + supported.error().text());
}

Error no_plan(const planner::OpSpec& op, const planner::Fingerprint& machine, const store::Store* store,
              const std::string& why) {
  const auto samples = store == nullptr ? std::nullopt : sampled(op, machine, *store);
  const std::string nearest = samples ? "samples of " + samples->text() + ", to which no model is fitted" + why
                              : store == nullptr ? "nothing is kept yet" + why
                                                 : nearest_kept(op, machine, *store) + why;
  const std::string how =
      samples ? "make one: " + command_of("fit", *samples, machine) + ", then ask again" : how_to_make_one(op, machine);
  return {ErrorCode::NotFound, "",
          "no plan and no model of " + op.text() + " on " + machine.label() + "\n  nearest kept: " + nearest + "\n  " +
              how + (store == nullptr ? "" : "   (asked " + store->path().string() + ")")};
}

} // namespace mc2::cli
