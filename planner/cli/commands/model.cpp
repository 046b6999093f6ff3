#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <thread>

#include "commands/commands.hpp"
#include "imported_store.hpp"
#include "kept_plan.hpp"
#include "mc2/finder/plan_llm.hpp"
#include "mc2/finder/topology_costs.hpp"
#include "mc2/planner/analytic_model.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/llm_config.hpp"
#include "mc2/store/llm_settings.hpp"
#include "options/layer_shapes.hpp"
#include "options/model_file.hpp"
#include "options/numbers.hpp"
#include "options/topology_files.hpp"
#include "pages/model_html.hpp"
#include "pages/model_page.hpp"
#include "pages/report.hpp"
#include "pages/terminal.hpp"
#include "parallel.hpp"

namespace mc2::cli {
namespace {

using finder::FindModel;
using finder::LlmQuestion;
using planner::LlmSite;

/// Makes functions that find an operator's model, and names the machine of the models.
struct CostsOfLayers {
  planner::Fingerprint machine;
  std::function<FindModel()> find_for_one; ///< called for each site; what it returns serves one thread
};

struct ModelCommand {
  MachineOptions machine;
  StoreOptions store;
  PlanningOptions planning;
  std::string name, dtype, topology_file, device, out, shapes_out, html_file, settings;
  std::string tokens = "1:16384";
  std::vector<std::string> model_files;
  int ranks = 8;
  bool no_transfer = false, is_csv = false, is_json = false;

  [[nodiscard]] bool is_csv_file() const { return name.size() > 4 && name.ends_with(".csv"); }
  /// The question with the model's layers and name.
  [[nodiscard]] Result<LlmQuestion> layers() const;
  [[nodiscard]] Result<LlmQuestion> described_layers() const;
  [[nodiscard]] Result<LlmQuestion> question() const;
  /// Adapts the question to the program that --settings writes for.
  [[nodiscard]] Result<void> ask_for_settings(LlmQuestion& asked) const;
  /// The costs from the place that the options name. Errors: InvalidSpec for several places, or for documents of two
  /// machines.
  [[nodiscard]] Result<CostsOfLayers> described_costs(const std::vector<LlmSite>& sites) const;
  [[nodiscard]] Result<CostsOfLayers> document_costs() const;
  [[nodiscard]] Result<CostsOfLayers> topology_costs() const;
  /// Errors: that of the first site, if no site has costs.
  [[nodiscard]] Result<CostsOfLayers> device_costs(const std::vector<LlmSite>& sites) const;
  /// Plans every site, on all cores. Errors: that of the first site which fails; Cancelled on an interrupt.
  [[nodiscard]] Result<void> plan(const CostsOfLayers& costs, LlmQuestion& asked, std::vector<LlmSite>& sites) const;
  [[nodiscard]] Result<void> plan_here(LlmQuestion& asked, std::vector<LlmSite>& sites) const;
  [[nodiscard]] Result<std::string> text_of(const planner::LlmPlan& plan) const;
  [[nodiscard]] Result<void> show(const planner::LlmPlan& plan) const;
  [[nodiscard]] Result<ExitCode> run() const;
};

Result<LlmQuestion> ModelCommand::described_layers() const {
  MC2_ASSIGN(const auto content, read_file(name));
  LlmQuestion asked;
  MC2_ASSIGN(asked.layers, parse_layer_shapes(content, name));
  if (asked.layers.empty()) return Error{ErrorCode::InvalidSpec, name, "names no layer"};
  asked.name = asked.layers.front().model;
  for (const auto& layer : asked.layers)
    if (layer.model != asked.name)
      return Error{ErrorCode::InvalidSpec, name,
                   "has layers of " + asked.name + " and of " + layer.model + "; give one model's"};
  return asked;
}

constexpr std::size_t kShownPathBytes = 256;

Result<planner::LlmConfig> read_config(const std::string& name) {
  if (!names_a_file(name)) return store::find_built_in_llm(name);
  MC2_ASSIGN(const auto content, read_file(name));
  auto config = store::decode_llm_config(content, std::filesystem::path(name).stem().string());
  if (config) return config;
  return Error{config.error().code, one_line(name, kShownPathBytes), config.error().text()};
}

Result<LlmQuestion> ModelCommand::layers() const {
  if (is_csv_file()) return described_layers();
  MC2_ASSIGN(auto config, read_config(name));
  return LlmQuestion{.name = config.name, .layers = config.layers(), .config = config};
}

Result<LlmQuestion> ModelCommand::question() const {
  MC2_ASSIGN(auto asked, layers());
  if (!dtype.empty()) {
    MC2_ASSIGN(const auto type, planner::parse_dtype(dtype));
    for (auto& layer : asked.layers) layer.dtype = type;
    if (asked.config) asked.config->dtype = type;
  }
  const NumberRange range = read_range(tokens);
  asked.first_tokens = range.first;
  asked.last_tokens = range.last;
  asked.ranks = ranks;
  asked.plan.may_transfer = !no_transfer;
  asked.plan.is_stopped = [] { return is_interrupted(); };
  MC2_TRY(ask_for_settings(asked));
  return asked;
}

Result<void> ModelCommand::ask_for_settings(LlmQuestion& asked) const {
  if (settings.empty()) return {};
  MC2_ASSIGN(const auto* program, store::find_llm_settings(settings));
  if (program->is_of_one_step && asked.first_tokens != asked.last_tokens)
    return Error{ErrorCode::InvalidSpec, "--m",
                 "is " + tokens + "; " + settings + " is set for one number of tokens, such as --m 8192"};
  if (program->is_of_one_step && asked.first_tokens % ranks != 0)
    return Error{ErrorCode::InvalidSpec, "--m",
                 "is " + tokens + ", which " + std::to_string(ranks) +
                     " ranks do not divide; the next that they do is " +
                     std::to_string(planner::ceil_div(asked.first_tokens, std::int64_t{ranks}) * ranks)};
  constexpr int kDenseSteps = 8; // finds where a decision changes to within 9 %
  if (!program->is_of_one_step) asked.steps_per_doubling = kDenseSteps;
  asked.layers = program->layers(asked.layers);
  if (!asked.layers.empty()) return {};
  return Error{ErrorCode::Infeasible, asked.name, "has none of the layers that " + settings + " overlaps"};
}

Result<CostsOfLayers> ModelCommand::document_costs() const {
  finder::ModelPlaces places;
  for (const auto& file : model_files) {
    MC2_ASSIGN(auto model, read_model(file));
    if (!places.given.empty() && model.fingerprint != places.given.front().fingerprint)
      return Error{ErrorCode::InvalidSpec, "--model",
                   file + " is of another machine than " + model_files.front() + "; give documents of one machine"};
    places.given.push_back(std::move(model));
  }
  const planner::Fingerprint of_all = places.given.front().fingerprint;
  return CostsOfLayers{of_all, [places] { return finder::finding_often(places); }};
}

Result<CostsOfLayers> ModelCommand::topology_costs() const {
  MC2_TRY(planning.check_gain_rule(true));
  MC2_ASSIGN(const auto topology, read_topology(topology_file));
  return CostsOfLayers{planner::analytic_fingerprint(topology, ranks),
                       [topology] { return finder::finding_on_topology(topology); }};
}

Result<CostsOfLayers> ModelCommand::device_costs(const std::vector<LlmSite>& sites) const {
  MC2_ASSIGN(auto opened, ImportedStore::open(store));
  const auto imported = std::make_shared<const ImportedStore>(std::move(opened));
  MC2_ASSIGN(const auto request, planning.request({}));
  const planner::PlanOptions limits = request.options_with({});
  std::optional<Error> refused;
  for (const LlmSite& site : sites) {
    if (!site.op) continue;
    const auto costs = imported->costs(device, *site.op, limits);
    if (costs) MC2_TRY(planning.check_gain_rule(planner::has_analytic_curve(costs.value().model)));
    if (costs)
      return CostsOfLayers{costs.value().model.fingerprint, [imported, limits, name = device] {
                             return finder::finding_on_device(name, limits, imported->kept());
                           }};
    if (!refused) refused = costs.error();
  }
  return *refused;
}

Result<CostsOfLayers> ModelCommand::described_costs(const std::vector<LlmSite>& sites) const {
  if (!model_files.empty() && !topology_file.empty())
    return Error{ErrorCode::InvalidSpec, "--topology", "cannot be combined with --model; give one of them"};
  MC2_TRY(check_device(device, !model_files.empty() || !topology_file.empty()));
  if (!device.empty()) return device_costs(sites);
  return model_files.empty() ? topology_costs() : document_costs();
}

/// The order of planning: sites with the most m to plan come first, so that no thread ends long after the others.
std::vector<std::size_t> longest_first(const std::vector<LlmSite>& sites) {
  std::vector<std::size_t> order(sites.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto step = [&](std::size_t i) { return sites[i].op ? planner::m_step(*sites[i].op) : planner::kMaxSize; };
  std::ranges::stable_sort(order, {}, step);
  return order;
}

Result<void> ModelCommand::plan(const CostsOfLayers& costs, LlmQuestion& asked, std::vector<LlmSite>& sites) const {
  MC2_ASSIGN(const auto request, planning.request({}));
  asked.plan.machine = costs.machine;
  asked.plan.options = request.options_with(planner::default_options_on(costs.machine));
  std::vector<Result<void>> done(sites.size());
  const std::vector<std::size_t> order = longest_first(sites);
  const auto plan_one = [&](std::size_t place) {
    const std::size_t i = order[place];
    if (sites[i].op) done[i] = finder::plan_site(costs.find_for_one(), asked, sites[i]);
  };
  const int thread_count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  for_each_index(sites.size(), thread_count, plan_one, is_interrupted, [](std::size_t) {});
  if (is_interrupted()) return Error{ErrorCode::Cancelled, "", "interrupted; nothing was written"};
  for (const auto& each : done) MC2_TRY(each);
  return {};
}

/// The error where nothing is kept, with what to do next.
Error with_next_step(const std::string& missing) {
  return {ErrorCode::NotFound, "",
          missing +
              "\n  next: --topology FILE plans for a described cluster; or --shapes-out FILE writes the layers' "
              "shapes, and\n  mc2 tune --shapes FILE measures them here; mc2 db list shows what is kept"};
}

Result<void> ModelCommand::plan_here(LlmQuestion& asked, std::vector<LlmSite>& sites) const {
  MC2_ASSIGN(const auto here, machine.fingerprint(ranks));
  auto layers = store.open(StoreUse::Read);
  if (!layers && layers.error().code == ErrorCode::NotFound)
    return with_next_step("no plan for any layer of " + asked.name + ": " + layers.error().text());
  if (!layers) return layers.error();
  finder::SharedLayers shared(layers.value());
  const finder::ModelPlaces places{.given = {}, .kept = finder::with_short_reasons(finder::kept_in(shared))};
  return plan({here, [&] { return finder::finding_often(places); }}, asked, sites);
}

Result<std::string> ModelCommand::text_of(const planner::LlmPlan& plan) const {
  if (is_json) return store::pretty(store::encode(plan));
  if (is_csv) return model_csv(plan);
  if (settings.empty()) return model_page(plan, terminal_width());
  MC2_ASSIGN(const auto* program, store::find_llm_settings(settings));
  return program->write(plan);
}

Result<void> ModelCommand::show(const planner::LlmPlan& plan) const {
  MC2_ASSIGN(const std::string text, text_of(plan));
  print_or_write(out, text);
  if (html_file.empty()) return {};
  write_file(html_file, model_html(plan));
  if (!is_json && !is_csv) std::cout << "\n  report written to " << html_file << " (opens in any browser, offline)\n";
  return {};
}

Result<ExitCode> ModelCommand::run() const {
  std::vector<std::string> read = model_files;
  read.insert(read.end(), {topology_file, name});
  MC2_TRY(check_outputs({{"--out", out}, {"--shapes-out", shapes_out}, {"--html", html_file}}, read));
  for (const auto& [is_given, option] : {std::pair(!device.empty(), "--device"),
                                         {!topology_file.empty(), "--topology"},
                                         {!model_files.empty(), "--model"}})
    if (is_given) MC2_TRY(machine.given.none_beside(option, "machine"));
  if (!topology_file.empty()) MC2_TRY(check_topology_alone(!store.path.empty(), no_transfer));
  MC2_ASSIGN(auto asked, question());
  MC2_ASSIGN(auto sites, finder::sites_of(asked));
  if (!shapes_out.empty()) {
    write_file(shapes_out, model_shapes(asked, sites));
    return ExitCode::Success;
  }
  const bool is_here = model_files.empty() && topology_file.empty() && device.empty();
  if (is_here) {
    MC2_TRY(plan_here(asked, sites));
  } else {
    MC2_ASSIGN(const auto costs, described_costs(sites));
    MC2_TRY(plan(costs, asked, sites));
  }
  if (const auto planned = finder::check_any_planned(asked.name, sites); !planned)
    return is_here ? with_next_step(planned.error().text()) : planned.error();
  MC2_TRY(show(finder::llm_plan_of(asked, std::move(sites))));
  return ExitCode::Success;
}

void add_questions(ModelCommand& command, CLI::App& sub) {
  sub.add_option(
         "MODEL", command.name,
         std::string("a config.json, a built-in model, or a CSV of layers: ") + kLayerColumns + kExpertColumnsHelp)
      ->required();
  sub.add_option("--ranks", command.ranks, "ranks that share every layer")->capture_default_str()->check(rank_count());
  sub.add_option("--m", command.tokens, "tokens of a step, as first:last; a decode step has one token per sequence")
      ->capture_default_str()
      ->check(number_or_range(1, planner::kMaxRangeAxis));
  sub.add_option("--dtype", command.dtype, dtype_help("the model's"));
  sub.add_option("--model", command.model_files, "cost model document to plan with; may be given several times");
  sub.add_option("--topology", command.topology_file, kTopologyHelp);
  sub.add_option("--device", command.device,
                 "plan for this machine with its imported timings (mc2 import) and published costs");
  sub.add_flag("--no-transfer", command.no_transfer, kNoTransferHelp);
  command.machine.add_names_to(sub);
  add_all(sub, command.store, command.planning);
  sub.remove_option(sub.get_option("--runners-up"));
}

void add_outputs(ModelCommand& command, CLI::App& sub) {
  auto* csv = sub.add_flag("--csv", command.is_csv, "print every range of every layer as CSV");
  add_json(sub, command.is_json, "ranges, steps and sizes");
  csv->excludes("--json");
  const auto program_text = [](const auto& each) { return std::string(each.name) + ": " + std::string(each.text); };
  auto* settings = sub.add_option("--settings", command.settings,
                                  "print instead the settings that tell a program where to fuse: " +
                                      list_text(store::llm_settings(), program_text, "; "));
  for (const char* other : {"--csv", "--json"}) settings->excludes(other);
  sub.add_option("--out", command.out, "write the output to this file instead");
  sub.add_option("--html", command.html_file, "also write a report with a chart and every range to this HTML file");
  auto* shapes = sub.add_option("--shapes-out", command.shapes_out,
                                "only write a CSV file for mc2 tune --shapes: a shape for each layer and kind, and one "
                                "for each step with so few rows that columns are cut");
  for (const char* other : {"--csv", "--json", "--out", "--html", "--topology", "--model", "--device"})
    shapes->excludes(other);
  settings->excludes("--html");
}

} // namespace

Command add_model(CLI::App& app) {
  auto command = std::make_shared<ModelCommand>();
  auto* sub = app.add_subcommand("model", "which layers of a language model to fuse, for which m");
  add_questions(*command, *sub);
  add_outputs(*command, *sub);
  sub->footer(
      "Examples:\n  mc2 model Llama-3-70B --ranks 8 --topology dgx_h100\n"
      "  mc2 model config.json --ranks 4 --backend cuda --json --out fuse.json\n"
      "Costs come from kept models of this machine unless an option names others.");
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
