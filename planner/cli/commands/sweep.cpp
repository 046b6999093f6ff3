#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "commands/commands.hpp"
#include "mc2/finder/topology_costs.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/render/text.hpp"
#include "options/model_file.hpp"
#include "options/number_list.hpp"
#include "options/numbers.hpp"
#include "options/shapes.hpp"
#include "options/topology_files.hpp"
#include "pages/report.hpp"
#include "pages/sweep_page.hpp"
#include "pages/terminal.hpp"
#include "pages/text.hpp"
#include "plan_grid.hpp"

namespace mc2::cli {
namespace {

using finder::FindModel;
using finder::FoundModel;
using finder::FoundPlan;
using finder::PlanQuestion;
using finder::PlanSource;

constexpr int kMaxThreadCount = 1024;

/// Model documents of one machine, and the file of each.
struct Documents {
  planner::Fingerprint machine;
  finder::ModelPlaces places = {};
  std::map<planner::OpSpec, std::string> files = {};
};

/// This machine with one number of ranks, and the operators that were tuned on it with the options of the sweep.
struct TunedMachine {
  planner::Fingerprint fingerprint;
  planner::PlanOptions options;
  std::set<planner::OpSpec> operators = {};
};

/// Where the plans come from: documents, then the store, then topologies. Threads: safe to share.
struct SweepPlaces {
  store::PlanRequest asked; ///< the options
  bool may_transfer = true;
  std::vector<Documents> documents = {};
  std::optional<finder::Kept> kept = std::nullopt;
  std::map<int, Result<TunedMachine>> here = {}; ///< by ranks
  std::vector<std::pair<std::string, planner::Topology>> topologies = {};

  [[nodiscard]] std::vector<PlanSource> of(const OpFamily& family) const;

 private:
  void add_kept(const OpFamily& family, std::vector<PlanSource>& places) const;
  [[nodiscard]] PlanSource planner_of(std::string name, const FindModel& find, const planner::Fingerprint& machine,
                                      const OpFamily& family,
                                      std::function<std::string(const FoundModel&)> origin) const {
    const PlanQuestion question{.op = family.op, .machine = machine, .may_transfer = may_transfer};
    return planner_with(std::move(name), finder::find_over(find, question, family.all_m), asked, std::move(origin));
  }
};

struct SweepCommand {
  MachineOptions machine;
  StoreOptions store;
  PlanningOptions planning;
  std::string shapes_file, out;
  std::string all_m = "256,512,1024,2048,4096,8192,16384";
  std::string ranks = "2,4,8";
  std::string dtype;
  std::vector<std::string> kinds, models, model_files, topology_files;
  bool no_transfer = false, is_csv = false, is_json = false;
  int thread_count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));

  [[nodiscard]] Result<std::vector<LayerShape>> layers() const;
  [[nodiscard]] Result<std::vector<planner::OpKind>> wanted_kinds() const;
  [[nodiscard]] Result<PlanGrid> grid() const;
  [[nodiscard]] bool is_foreign() const { return !model_files.empty() || !topology_files.empty(); }
  /// Whether kept models and plans of this machine answer: for another machine only if --store is given.
  [[nodiscard]] bool asks_store() const { return !is_foreign() || !store.path.empty(); }
  [[nodiscard]] Result<SweepPlaces> places(const GridRun& settled, const PlanGrid& grid) const;
  void open_store(store::Layers layers, SweepPlaces& places, const std::vector<int>& all_ranks) const;
  [[nodiscard]] Result<GridRun> settings() const;
  /// Prints the page or the table, or writes the table to a file. Errors: NotFound where the page would be empty.
  [[nodiscard]] Result<void> show(const PlanGrid& grid, PlannedGrid planned, const GridRun& settled) const;
  [[nodiscard]] Result<ExitCode> run() const;
};

Result<std::vector<LayerShape>> read_layers(const std::string& file) {
  if (file.empty()) return built_in_layers();
  MC2_ASSIGN(const auto content, read_file(file));
  auto layers = parse_layer_shapes(content, file);
  if (layers || !parse_shapes(content, file, {})) return layers;
  return Error{layers.error().code, file,
               std::string("lists operators, as mc2 tune --shapes takes them; here, --m and --ranks are swept for "
                           "layers, with the columns ") +
                   kLayerColumns};
}

/// Keeps the layers of the wanted models. Errors: UnknownName for a model that no layer has, with the known ones.
Result<void> keep_models(const std::vector<std::string>& wanted, std::vector<LayerShape>& layers) {
  if (wanted.empty()) return {};
  std::vector<std::string> known;
  for (const auto& layer : layers)
    if (std::find(known.begin(), known.end(), layer.model) == known.end()) known.push_back(layer.model);
  for (const auto& name : wanted) MC2_TRY(find_named(known, name, std::identity(), "--models", "model"));
  std::erase_if(layers, [&](const LayerShape& layer) {
    return std::find(wanted.begin(), wanted.end(), layer.model) == wanted.end();
  });
  return {};
}

Result<std::vector<LayerShape>> SweepCommand::layers() const {
  MC2_ASSIGN(auto result, read_layers(shapes_file));
  MC2_TRY(keep_models(models, result));
  if (dtype.empty()) return result;
  MC2_ASSIGN(const auto type, planner::parse_dtype(dtype));
  for (auto& layer : result) layer.dtype = type;
  return result;
}

Result<std::vector<planner::OpKind>> SweepCommand::wanted_kinds() const {
  std::vector<planner::OpKind> result;
  for (const auto& name : kinds) {
    const auto kind = planner::parse_op_kind(name);
    if (!kind) return Error{kind.error().code, "--kinds", kind.error().message};
    result.push_back(kind.value());
  }
  if (kinds.empty())
    for (const auto& traits : planner::op_registry()) result.push_back(traits.kind);
  return result;
}

Result<PlanGrid> SweepCommand::grid() const {
  PlanGrid result;
  MC2_ASSIGN(const auto sizes, parse_number_list(all_m, "--m", {1, planner::kMaxSize, kMaxGridRows}));
  MC2_ASSIGN(const auto rank_counts,
             parse_number_list(ranks, "--ranks", {2, planner::kMaxWorldSize, planner::kMaxWorldSize}));
  MC2_ASSIGN(auto named, layers());
  MC2_ASSIGN(auto wanted, wanted_kinds());
  result.all_m = sizes;
  for (const std::int64_t count : rank_counts) result.ranks.push_back(static_cast<int>(count));
  result.layers = std::move(named);
  result.kinds = std::move(wanted);
  MC2_TRY(result.row_count());
  return result;
}

/// The kept plans of a machine. Asks the store only for operators that were tuned.
PlanSource tuned_plans(const finder::Kept& kept, const TunedMachine& here) {
  PlanSource plans = finder::kept_plans(kept);
  plans.find = [find = plans.find, here](PlanQuestion question) -> Result<FoundPlan> {
    if (!here.operators.contains(question.op)) return Error{ErrorCode::NotFound, "", "none is of this m"};
    question.machine = here.fingerprint;
    question.options = here.options;
    MC2_ASSIGN(auto found, find(question));
    found.source = "tuned " + found.stored.created_at;
    return found;
  };
  return plans;
}

void SweepPlaces::add_kept(const OpFamily& family, std::vector<PlanSource>& places) const {
  const Result<TunedMachine>& machine = here.at(family.op.world_size);
  if (!machine) {
    const FindModel refuse = [&](const PlanQuestion&) { return Result<FoundModel>(machine.error()); };
    places.push_back(planner_of("kept models", refuse, {}, family, nullptr));
    return;
  }
  const auto is_tuned = [&, op = family.op](std::int64_t m) mutable {
    op.m = m;
    return machine.value().operators.contains(op);
  };
  if (std::ranges::any_of(family.all_m, is_tuned)) places.push_back(tuned_plans(*kept, machine.value()));
  places.push_back(planner_of("kept models", finder::finding_often({.given = {}, .kept = kept}),
                              machine.value().fingerprint, family, [](const FoundModel& found) {
                                return "kept model " + (found.transfer ? found.transfer->reason
                                                                       : "of m=" + std::to_string(found.model.op.m));
                              }));
}

std::vector<PlanSource> SweepPlaces::of(const OpFamily& family) const {
  std::vector<PlanSource> places;
  for (const Documents& of_one : documents)
    places.push_back(planner_of("--model", finder::finding_often(of_one.places), of_one.machine, family,
                                [files = of_one.files](const FoundModel& found) {
                                  return found.transfer ? "document, " + found.transfer->reason
                                                        : "document " + files.at(found.model.op);
                                }));
  if (kept) add_kept(family, places);
  std::vector<PlanSource> described;
  for (const auto& [file, topology] : topologies)
    described.push_back(planner_of(file, finder::finding_on_topology(topology), {}, family,
                                   [file = file](const FoundModel&) { return "topology " + file; }));
  if (described.empty()) return places;
  places.push_back({"--topology", [described = std::move(described)](const PlanQuestion& question) {
                      auto found = finder::find_plan(described, question);
                      if (found) found.value().is_stopgap = true; // even a transferred model was measured
                      return found;
                    }});
  return places;
}

Result<std::vector<Documents>> read_documents(const std::vector<std::string>& files) {
  std::vector<Documents> result;
  for (const auto& file : files) {
    MC2_ASSIGN(auto model, read_model(file));
    auto of_one = std::ranges::find(result, model.fingerprint, &Documents::machine);
    if (of_one == result.end()) of_one = result.insert(of_one, {model.fingerprint});
    of_one->files.emplace(model.op, file);
    of_one->places.given.push_back(std::move(model));
  }
  return result;
}

/// @param layers  their connection serves one thread only, so the keys of tuned plans are read now
void SweepCommand::open_store(store::Layers layers, SweepPlaces& places, const std::vector<int>& all_ranks) const {
  for (const int count : all_ranks) {
    const auto fingerprint = machine.fingerprint(count);
    if (!fingerprint) {
      places.here.emplace(count, fingerprint.error());
      continue;
    }
    const auto usual = planner::default_options_on(fingerprint.value());
    TunedMachine here{fingerprint.value(), places.asked.options_with(usual)};
    const std::string purpose = finder::tuned_purpose({.op = {}, .machine = here.fingerprint, .options = here.options});
    for (auto& key : layers.list_plan_keys(store::digest(here.fingerprint)))
      if (key.purpose == purpose) here.operators.insert(std::move(key.op));
    places.here.emplace(count, std::move(here));
  }
  // The functions of `kept` share them.
  const auto opened = std::make_shared<store::Layers>(std::move(layers));
  const auto shared = std::make_shared<finder::SharedLayers>(*opened);
  places.kept = finder::kept_by([opened, shared](const auto& body) { return shared->use(body); });
}

Result<SweepPlaces> SweepCommand::places(const GridRun& settled, const PlanGrid& grid) const {
  SweepPlaces result{.asked = settled.asked, .may_transfer = !no_transfer};
  MC2_ASSIGN(result.documents, read_documents(model_files));
  if (asks_store()) {
    MC2_TRY(executor::find_backend(machine.backend));
    MC2_ASSIGN(auto layers, store.open(StoreUse::Read));
    open_store(std::move(layers), result, grid.ranks);
  }
  MC2_TRY(planning.check_gain_rule(model_files.empty() && !asks_store())); // only topologies are left
  for (const auto& file : topology_files) {
    MC2_ASSIGN(auto topology, read_topology(file));
    result.topologies.emplace_back(file, std::move(topology));
  }
  return result;
}

Result<GridRun> SweepCommand::settings() const {
  GridRun result;
  MC2_ASSIGN(result.asked, planning.request({}));
  result.asked.options.runner_up_count = 0; // a row does not show them
  const bool is_table = is_csv || !out.empty();
  result.format = is_json ? TableFormat::Json : is_table ? TableFormat::Csv : TableFormat::None;
  result.thread_count = thread_count;
  result.has_progress = isatty(STDERR_FILENO) != 0;
  return result;
}

constexpr std::size_t kMostReasonLines = 8;

/// The error if no row has a plan, with the most frequent reason.
Error nothing_planned(const PlannedGrid& planned, bool is_described) {
  const auto most = std::ranges::max_element(planned.refusals, {}, [](const auto& each) { return each.second.count; });
  return {ErrorCode::NotFound, "",
          "no plan for any of " + std::to_string(planned.counts.refused) + " rows\n" +
              render::hanging("  " + std::to_string(most->second.count) + " of them, e.g.: ", most->second.example,
                              kPageColumns, kMostReasonLines) +
              (is_described ? "  next: other --m or --ranks, or other documents for --model or --topology"
                            : "  next: mc2 tune one of the layers, or describe a cluster with --topology FILE")};
}

Result<void> SweepCommand::show(const PlanGrid& grid, PlannedGrid planned, const GridRun& settled) const {
  if (settled.format == TableFormat::None) {
    const PlanCounts& counts = planned.counts;
    if (counts.cut + counts.uncut == 0)
      return nothing_planned(planned, !model_files.empty() || !topology_files.empty());
    std::cout << sweep_page(grid, planned, terminal_width());
    return {};
  }
  print_or_write(out, make_table(settled.format, settled.asked, std::move(planned.rows), planned.counts));
  return {};
}

Result<ExitCode> SweepCommand::run() const {
  std::vector<std::string> read = model_files;
  read.insert(read.end(), topology_files.begin(), topology_files.end());
  read.push_back(shapes_file);
  MC2_TRY(check_output("--out", out, read));
  if (!asks_store()) MC2_TRY(machine.given.none_beside(model_files.empty() ? "--topology" : "--model", "machine"));
  if (model_files.empty() && !asks_store()) MC2_TRY(check_topology_alone(false, no_transfer));
  const auto start = std::chrono::steady_clock::now();
  MC2_ASSIGN(const auto settled, settings());
  MC2_ASSIGN(const auto asked, grid());
  MC2_ASSIGN(const auto opened, places(settled, asked));
  const auto places_of = [&](const OpFamily& family) { return opened.of(family); };
  MC2_ASSIGN(auto planned, plan_grid(asked, places_of, settled));
  const PlanCounts counts = planned.counts;
  MC2_TRY(show(asked, std::move(planned), settled));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "mc2: %lld rows: %lld plans (%lld cut, %lld uncut), %lld refused; %.2f s on %d threads\n",
               static_cast<long long>(counts.total()), static_cast<long long>(counts.cut + counts.uncut),
               static_cast<long long>(counts.cut), static_cast<long long>(counts.uncut),
               static_cast<long long>(counts.refused), elapsed.count(), thread_count);
  return counts.cut + counts.uncut > 0 ? ExitCode::Success : ExitCode::NoAnswer;
}

constexpr const char* kSweepNotes =
    "Examples:\n  mc2 sweep --models Llama-3-8B --dtype f32 --ranks 2 --link 2.5Gbit,20us\n"
    "  mc2 sweep --shapes my_layers.csv --link 2.5Gbit,20us --json\n"
    "  mc2 sweep --topology dgx_h100 --ranks 2,4,8\n"
    "Costs come from --model, else from kept models of this machine, else from\n"
    "--topology; with --model, kept models are asked only where --store is given.\n"
    "Tuned plans come first. A row without a plan says why. Exit code 3 when no row\n"
    "has a plan.";

} // namespace

Command add_sweep(CLI::App& app) {
  auto command = std::make_shared<SweepCommand>();
  auto* sub = app.add_subcommand("sweep", "a table of plans: layers x kinds x ranks x m");
  sub->add_option("--shapes", command->shapes_file,
                  std::string("CSV of layers: ") + kLayerColumns + kExpertColumnsHelp +
                      "; the file of mc2 tune --shapes is another one (default: published LLMs, data/llm/)");
  sub->add_option("--models", command->models, "only the layers of these models")->delimiter(',');
  sub->add_option("--m", command->all_m,
                  "rows of one rank's product, as numbers and first:last:step: tokens or, for experts, the rows that "
                  "reach a rank (mc2 model counts tokens in every layer)")
      ->capture_default_str();
  sub->add_option("--ranks", command->ranks, "ranks, as numbers and first:last:step")->capture_default_str();
  sub->add_option("--kinds", command->kinds, "only these operator kinds")->delimiter(',');
  sub->add_option("--dtype", command->dtype, dtype_help("the file's"));
  sub->add_option("--model", command->model_files, "model document to plan with; may be given several times");
  sub->add_option("--topology", command->topology_files, std::string(kTopologyHelp) + "; may be given several times");
  sub->add_flag("--no-transfer", command->no_transfer, kNoTransferHelp);
  command->machine.add_names_to(*sub);
  add_all(*sub, command->store, command->planning);
  sub->remove_option(sub->get_option("--runners-up"));
  auto* csv = sub->add_flag("--csv", command->is_csv, "print every plan as CSV");
  add_json(*sub, command->is_json, "every plan");
  csv->excludes("--json");
  sub->add_option("--out", command->out, "write every plan to this file, as CSV, or with --json as JSON");
  sub->add_option("--threads", command->thread_count, "threads that plan (default: one per core)")
      ->check(whole_number(1, kMaxThreadCount));
  sub->footer(kSweepNotes);
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
