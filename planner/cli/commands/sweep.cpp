#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <thread>

#include "commands/commands.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/render/text.hpp"
#include "options/number_list.hpp"
#include "options/numbers.hpp"
#include "options/topology_files.hpp"
#include "pages/report.hpp"
#include "pages/sweep_page.hpp"
#include "pages/terminal.hpp"
#include "pages/text.hpp"
#include "plan_grid.hpp"

namespace mc2::cli {
namespace {

constexpr int kMaxThreadCount = 1024;

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
  [[nodiscard]] Result<ModelSources> sources(const PlanGrid& grid) const;
  [[nodiscard]] Result<GridRun> settings() const;
  /// Prints the page or the table, or writes the table to a file. Errors: NotFound where the page would be empty.
  [[nodiscard]] Result<void> show(const PlanGrid& grid, PlannedGrid planned, const GridRun& settled) const;
  [[nodiscard]] Result<ExitCode> run() const;
};

Result<std::vector<LayerShape>> read_layers(const std::string& file) {
  if (file.empty()) return built_in_layers();
  MC2_ASSIGN(const auto content, read_file(file));
  return parse_layer_shapes(content, file);
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

Result<ModelSources> SweepCommand::sources(const PlanGrid& grid) const {
  ModelSources result;
  if (!model_files.empty()) {
    MC2_ASSIGN(auto documents, open_document_source(model_files, !no_transfer));
    result.push_back(std::move(documents));
  }
  if (asks_store()) {
    MC2_ASSIGN(const auto backend, executor::find_backend(machine.backend));
    MC2_ASSIGN(const auto options, planning.options_on(*backend));
    MC2_ASSIGN(auto kept, open_store_source(store, machine, grid.families(), options, !no_transfer));
    result.push_back(std::move(kept));
  }
  MC2_TRY(planning.check_gain_rule(result.empty())); // empty: only topologies are left
  if (!topology_files.empty()) {
    MC2_ASSIGN(auto topologies, open_topology_source(topology_files));
    result.push_back(std::move(topologies));
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

constexpr std::size_t kMostReasonLines = 4;

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
  MC2_ASSIGN(const auto opened, sources(asked));
  MC2_ASSIGN(auto planned, plan_grid(asked, opened, settled));
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
  sub->add_option(
      "--shapes", command->shapes_file,
      std::string("CSV of layers: ") + kLayerColumns + kExpertColumnsHelp + " (default: published LLMs, data/llm/)");
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
  add_all(*sub, command->machine, command->store, command->planning);
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
