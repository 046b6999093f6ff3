#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <numeric>

#include "commands/commands.hpp"
#include "imported_store.hpp"
#include "kept_plan.hpp"
#include "machine_load.hpp"
#include "mc2/embed/workbench.hpp"
#include "mc2/finder/find_ranges.hpp"
#include "mc2/finder/topology_costs.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/anchor.hpp"
#include "mc2/render/markup.hpp"
#include "mc2/store/codec.hpp"
#include "options/counts_file.hpp"
#include "options/document_file.hpp"
#include "options/model_file.hpp"
#include "options/numbers.hpp"
#include "options/server_options.hpp"
#include "options/topology_files.hpp"
#include "options/variant_option.hpp"
#include "pages/ranges_page.hpp"
#include "pages/render.hpp"
#include "pages/report.hpp"
#include "pages/terminal.hpp"

namespace mc2::cli {
namespace {

/// Lets a question for a range of m end on an interrupt, and shows on a terminal how far it is.
void watch_range(finder::PlanQuestion& question, std::int64_t first_m) {
  question.is_stopped = [] { return is_interrupted(); };
  if (isatty(STDERR_FILENO) == 0) return;
  const auto progress = std::make_shared<ProgressLine>("plan"); // shared by copies of the function
  question.on_planned = [progress, first_m, last_m = question.op.m](std::int64_t m) {
    progress->update(static_cast<double>(m - first_m + 1) / static_cast<double>(last_m - first_m + 1),
                     "m=" + std::to_string(m));
  };
}

/// What the page says in addition to the plan.
struct About {
  std::vector<std::string> notes;
  bool is_tuned = false; ///< the plan was tuned, here or on the service's machine
};

struct PlanCommand {
  OpOptions op;
  MachineOptions machine;
  StoreOptions store;
  PlanningOptions planning;
  VariantOption variant;
  const ServerOptions* server = nullptr;
  std::string model_file, topology_file, request_file, out, blocks, device;
  std::vector<std::string> counts_files;
  std::optional<double> imbalance;
  bool is_json = false;
  bool is_verbose = false;
  bool no_transfer = false;
  bool is_anchored = false;

  /// @param model its operator completes the options
  [[nodiscard]] Result<store::PlanRequest> request(const std::optional<planner::CostModel>& model) const;
  /// The operator with the rows that --imbalance or --counts ask for, and the counts that its ranks send each other.
  [[nodiscard]] Result<planner::RoutedOp> routing(OpOptions asked) const;
  /// Whether the costs come from a document or a device, whose machine need not be this one.
  [[nodiscard]] bool is_elsewhere() const { return !model_file.empty() || !topology_file.empty() || !device.empty(); }
  /// The option that names the machine then.
  [[nodiscard]] const char* document_option() const {
    return !device.empty() ? "--device" : !topology_file.empty() ? "--topology" : "--model";
  }
  /// The model that --topology or --model names.
  /// @param model  that of --model
  [[nodiscard]] Result<planner::CostModel> described_model(const store::PlanRequest& request,
                                                           const std::optional<planner::CostModel>& model) const;
  /// The plan for the machine of that model, made by the finder.
  [[nodiscard]] Result<planner::Plan> plan_described(const store::PlanRequest& request,
                                                     const std::optional<planner::CostModel>& model) const;
  /// The plan for the machine that --device names.
  [[nodiscard]] Result<planner::Plan> plan_on_device(const store::PlanRequest& request, About& about) const;
  /// As plan_question(), with the times that --anchor measures.
  [[nodiscard]] Result<finder::PlanQuestion> question_on(const planner::Fingerprint& machine,
                                                         const store::PlanRequest& request) const;
  /// The question on the machine of a model that is not from the store. Errors: as PlanningOptions::check_gain_rule.
  [[nodiscard]] Result<finder::PlanQuestion> question_of(const planner::CostModel& model,
                                                         const store::PlanRequest& request) const;
  /// Measures the uncut parts for --anchor. Errors: InvalidSpec for a model that is of no backend; Stale for a model of
  /// another machine; as profiler::time_lanes.
  [[nodiscard]] Result<std::vector<planner::TimedLanes>> time_lanes(const planner::OpSpec& spec,
                                                                    const planner::CostModel& model) const;
  /// The plan, or the prediction of the blocks that the user named.
  [[nodiscard]] Result<planner::Plan> plan_with(const finder::FoundModel& found,
                                                const finder::PlanQuestion& question) const;
  /// The plan for this machine that the finder finds; with --blocks, the prediction by the model that it finds.
  [[nodiscard]] Result<planner::Plan> plan_here(const store::PlanRequest& request, About& about) const;
  /// Errors: InvalidSpec for --server together with an option that answers without a server.
  [[nodiscard]] Result<void> check_server() const;
  /// Checks that the backend has the variant. Errors: as MachineOptions and VariantOption::choose.
  [[nodiscard]] Result<void> check_variant(const planner::OpSpec& spec) const;
  /// The plans for the range of m that --m names. Errors: InvalidSpec for options that need a single m; as
  /// finder::find_ranges.
  [[nodiscard]] Result<planner::PlanRanges> ranges(const store::PlanRequest& request,
                                                   const std::optional<planner::CostModel>& model) const;
  [[nodiscard]] Result<planner::PlanRanges> ranges_here(const store::PlanRequest& request) const;
  [[nodiscard]] Result<planner::PlanRanges> ranges_on_device(const store::PlanRequest& request) const;
  [[nodiscard]] Result<planner::PlanRanges> ranges_described(const store::PlanRequest& request,
                                                             const std::optional<planner::CostModel>& model) const;
  /// What the reader can do with the plan.
  [[nodiscard]] std::string next_step(const planner::Plan& plan, bool is_tuned) const;
  /// The plan for as many rows, spread equally over all pairs of ranks.
  [[nodiscard]] Result<planner::Plan> plan_balanced(const planner::Plan& skewed, const store::PlanRequest& request,
                                                    const std::optional<planner::CostModel>& model) const;
  /// Notes on what the unequal counts cost.
  [[nodiscard]] std::vector<std::string> skew_notes(const planner::Plan& found, const store::PlanRequest& request,
                                                    const std::optional<planner::CostModel>& model) const;
  [[nodiscard]] std::string page(planner::Plan plan, const About& about) const;
  /// Prints the document or the page, and writes --out.
  [[nodiscard]] ExitCode show(const std::string& document, const std::string& page) const;
  [[nodiscard]] Result<planner::Plan> plan(const store::PlanRequest& request,
                                           const std::optional<planner::CostModel>& model, About& about) const;
  [[nodiscard]] Result<ExitCode> run() const;
};

Result<store::PlanRequest> PlanCommand::request(const std::optional<planner::CostModel>& model) const {
  if (!request_file.empty()) {
    MC2_TRY(op.given.none_beside("--request", "operator"));
    MC2_TRY(planning.given.none_beside("--request", "options"));
    for (const auto& [is_given, option] :
         {std::pair(imbalance.has_value(), "--imbalance"), {!counts_files.empty(), "--counts"}})
      if (is_given)
        return Error{ErrorCode::InvalidSpec, option, "cannot be combined with --request, which has counts of its own"};
    return read_document(request_file, store::decode_request);
  }
  OpOptions asked = op;
  if (model && topology_file.empty()) asked.complete_with(model->op);
  if (!counts_files.empty()) asked.m = op.m; // the counts decide m, not the model
  MC2_ASSIGN(const auto routing, this->routing(asked));
  MC2_ASSIGN(auto request, planning.request(routing.op));
  request.options.counts = routing.counts;
  MC2_TRY(request.options.validate());
  return request;
}

Result<planner::RoutedOp> PlanCommand::routing(OpOptions asked) const {
  if (counts_files.empty()) {
    MC2_ASSIGN(const auto spec, asked.spec());
    if (!imbalance) return planner::RoutedOp{spec, {}};
    return planner::with_imbalance(spec, *imbalance);
  }
  if (imbalance)
    return Error{ErrorCode::InvalidSpec, "--imbalance", "cannot be combined with --counts; give one of them"};
  if (counts_files.size() > 1 && !blocks.empty())
    return Error{ErrorCode::InvalidSpec, "--blocks", "are predicted for one table; give --counts one file"};
  const std::optional<std::int64_t> given_m = asked.m;
  std::optional<std::int64_t> m;
  planner::RowCounts tables;
  std::optional<std::int64_t> experts;
  for (const auto& file : counts_files) {
    MC2_ASSIGN(const auto counts, read_counts(file));
    if (experts.value_or(counts.experts_per_rank) != counts.experts_per_rank)
      return Error{ErrorCode::InvalidSpec, "--counts",
                   "are of " + std::to_string(counts.experts_per_rank) + " experts on a rank in " + file + " and of " +
                       std::to_string(*experts) + " in " + counts_files.front()};
    experts = counts.experts_per_rank;
    asked.m = given_m;
    MC2_TRY(counts.complete(asked));
    m = std::max(m, asked.m);
    std::ranges::copy(counts.by_rank(), std::back_inserter(tables));
  }
  asked.m = m;
  MC2_ASSIGN(const auto spec, asked.spec());
  return planner::RoutedOp{spec, std::move(tables)};
}

Result<planner::Plan> PlanCommand::plan_with(const finder::FoundModel& found,
                                             const finder::PlanQuestion& question) const {
  if (blocks.empty()) return finder::plan_with(found, question);
  MC2_ASSIGN(const auto cut, planner::parse_cut(blocks));
  return finder::predict_with(found, question, cut);
}

Result<void> PlanCommand::check_variant(const planner::OpSpec& spec) const {
  MC2_ASSIGN(const auto backend, machine.find());
  MC2_ASSIGN(const auto options, machine.communicator_options(spec.world_size));
  MC2_TRY(variant.choose(*backend, options, spec));
  return {};
}

Result<void> PlanCommand::check_server() const {
  const std::pair<bool, const char*> answers[]{
      {!model_file.empty(), "--model"}, {!topology_file.empty(), "--topology"}, {!device.empty(), "--device"},
      {!blocks.empty(), "--blocks"},    {variant.is_given(), "--variant"},      {is_anchored, "--anchor"}};
  for (const auto& [is_given, option] : answers)
    if (is_given) MC2_TRY(server->refuse_beside(option, "this machine answers itself"));
  return {};
}

Result<finder::PlanQuestion> PlanCommand::question_on(const planner::Fingerprint& machine,
                                                      const store::PlanRequest& request) const {
  MC2_ASSIGN(auto question, plan_question(request, machine, variant, !no_transfer));
  if (is_anchored) question.time_lanes = [this, op = request.op](const auto& model) { return time_lanes(op, model); };
  return question;
}

Result<finder::PlanQuestion> PlanCommand::question_of(const planner::CostModel& model,
                                                      const store::PlanRequest& request) const {
  MC2_TRY(planning.check_gain_rule(planner::has_analytic_curve(model)));
  return question_on(model.fingerprint, request);
}

Result<std::vector<planner::TimedLanes>> PlanCommand::time_lanes(const planner::OpSpec& spec,
                                                                 const planner::CostModel& model) const {
  if (!executor::find_backend(model.fingerprint.field("backend")))
    return Error{ErrorCode::InvalidSpec, "--anchor",
                 "times this machine, and nothing of what " + std::string(document_option()) +
                     " names can be measured here; leave it out"};
  MC2_ASSIGN(const auto backend, machine.find());
  MC2_ASSIGN(const auto options, machine.communicator_options(spec.world_size));
  const planner::Fingerprint here = backend->fingerprint(options);
  if (model.fingerprint != here)
    return Error{ErrorCode::Stale, "--anchor",
                 "times this machine, and the model is of another (" + here.differences(model.fingerprint).front() +
                     "); leave it out, or pass the model's --link and --backend"};
  tell_load(backend->name());
  MC2_ASSIGN(auto bench, embed::Workbench::open(*backend, options, spec, {fresh_seed()}));
  profiler::TuneHooks hooks;
  hooks.is_cancelled = is_interrupted;
  return profiler::time_lanes(*bench, model, hooks);
}

Result<planner::Plan> PlanCommand::plan_here(const store::PlanRequest& request, About& about) const {
  MC2_ASSIGN(const auto here, machine.fingerprint(request.op.world_size));
  MC2_TRY(check_variant(request.op));
  MC2_ASSIGN(const auto question, question_on(here, request));
  MC2_ASSIGN(auto layers, open_to_look_up(store, *server, request.op, here));
  if (!blocks.empty()) {
    const auto model = find_kept_model(question, layers);
    return model ? plan_with(model.value(), question) : with_advice(model.error(), question, layers);
  }
  MC2_ASSIGN(auto found, find_plan_for(question, layers, *server));
  about.is_tuned = !found.stored.created_at.empty();
  if (found.origin == finder::Origin::Kept) tell_later_run(layers, found.stored.plan);
  return std::move(found).stored.plan;
}

Result<planner::Plan> PlanCommand::plan_balanced(const planner::Plan& skewed, const store::PlanRequest& request,
                                                 const std::optional<planner::CostModel>& model) const {
  store::PlanRequest balanced = request;
  planner::RowCounts& counts = balanced.options.counts;
  counts = skewed.counts;
  const auto all = std::reduce(counts.begin(), counts.end(), std::int64_t{0}), pairs = std::ssize(counts);
  const std::int64_t ranks = request.op.world_size;
  for (std::int64_t i = 0; i < pairs; ++i) { // the remainder goes along diagonals, so that ranks stay alike
    const std::int64_t from = i % ranks, to = (from + i / ranks) % ranks;
    counts[static_cast<std::size_t>(from * ranks + to)] = all / pairs + (i < all % pairs ? 1 : 0);
  }
  About about;
  return plan(balanced, model, about);
}

std::vector<std::string> PlanCommand::skew_notes(const planner::Plan& found, const store::PlanRequest& request,
                                                 const std::optional<planner::CostModel>& model) const {
  if (is_anchored) return {}; // else the machine would be measured again
  const auto balanced = plan_balanced(found, request, model);
  if (!balanced || !(balanced.value().makespan.us > 0)) return {};
  const double cost = found.makespan.us / balanced.value().makespan.us - 1;
  return {"skew: as many rows, spread evenly over all pairs of ranks, take " + time_text(balanced.value().makespan.us) +
          "; these counts, whose busiest rank multiplies " +
          number_text(planner::imbalance_of(found.op, found.counts), 3) + " times the mean, take " +
          percent_text(std::abs(cost)) + (cost < 0 ? " less" : " more")};
}

/// A note with the cut that the published recipe would choose.
std::string recipe_note(finder::PlanQuestion question, const finder::FoundModel& model) {
  question.options->strategy = "formula";
  const auto recipe = finder::plan_with(model, question);
  if (!recipe) return "published recipe: no cut (" + recipe.error().text() + ")";
  return "published recipe: " + recipe.value().cut.text() + ", predicted " + time_text(recipe.value().makespan.us) +
         " (--strategy formula)";
}

planner::PlanOptions limits_on_device(const store::PlanRequest& request) { return request.options_with({}); }

Result<planner::CostModel> PlanCommand::described_model(const store::PlanRequest& request,
                                                        const std::optional<planner::CostModel>& model) const {
  if (topology_file.empty()) return *model;
  MC2_ASSIGN(const auto topology, read_topology(topology_file));
  auto costs = finder::topology_costs(topology, request.op, model);
  if (costs || costs.error().field != "model") return costs;
  return Error{costs.error().code, "--model", costs.error().message};
}

Result<planner::Plan> PlanCommand::plan_described(const store::PlanRequest& request,
                                                  const std::optional<planner::CostModel>& model) const {
  MC2_ASSIGN(const auto named, described_model(request, model));
  MC2_ASSIGN(const auto question, question_of(named, request));
  MC2_ASSIGN(const auto found, finder::find_model({.given = {named}}, question));
  return plan_with(found, question);
}

Result<planner::Plan> PlanCommand::plan_on_device(const store::PlanRequest& request, About& about) const {
  MC2_ASSIGN(const auto imported, ImportedStore::open(store));
  MC2_ASSIGN(auto costs, imported.costs(device, request.op, limits_on_device(request)));
  about.notes = costs.notes;
  MC2_ASSIGN(const auto question, question_of(costs.model, request));
  MC2_ASSIGN(const auto model, finder::find_model({.given = {costs.model}}, question));
  if (!blocks.empty()) return plan_with(model, question);
  const bool is_analytic = planner::has_analytic_curve(model.model);
  if (is_analytic && !costs.refinement && request.options.strategy != "formula")
    about.notes.push_back(recipe_note(question, model));
  MC2_ASSIGN(auto found, finder::find_plan(finder::device_places(std::move(costs), imported.kept()), question));
  return std::move(found).stored.plan;
}

Result<planner::PlanRanges> PlanCommand::ranges_here(const store::PlanRequest& request) const {
  MC2_ASSIGN(const auto here, machine.fingerprint(request.op.world_size));
  MC2_TRY(check_variant(request.op));
  MC2_ASSIGN(auto question, question_on(here, request));
  watch_range(question, *op.first_m);
  MC2_ASSIGN(auto layers, open_to_look_up(store, *server, request.op, here));
  finder::SharedLayers shared(layers);
  const finder::ModelPlaces places{.given = {}, .kept = finder::with_short_reasons(finder::kept_in(shared))};
  auto ranges = finder::find_ranges(places, question, *op.first_m);
  return ranges ? std::move(ranges) : with_advice(ranges.error(), question, layers);
}

Result<planner::PlanRanges> PlanCommand::ranges(const store::PlanRequest& request,
                                                const std::optional<planner::CostModel>& model) const {
  for (const auto& [is_given, option] : {std::pair(!blocks.empty(), "--blocks"),
                                         {is_anchored, "--anchor"},
                                         {imbalance.has_value(), "--imbalance"},
                                         {planning.given.has("--runners-up"), "--runners-up"},
                                         {is_verbose, "--verbose"},
                                         {!counts_files.empty(), "--counts"}})
    if (is_given)
      return Error{ErrorCode::InvalidSpec, option, "holds for one m; leave it out, or name one m instead of a range"};
  MC2_TRY(server->refuse_beside("--m first:last", "this machine answers itself"));
  if (!device.empty()) return ranges_on_device(request);
  return is_elsewhere() ? ranges_described(request, model) : ranges_here(request);
}

Result<planner::PlanRanges> PlanCommand::ranges_on_device(const store::PlanRequest& request) const {
  MC2_ASSIGN(const auto imported, ImportedStore::open(store));
  const planner::PlanOptions limits = limits_on_device(request);
  MC2_ASSIGN(const auto costs, imported.costs(device, request.op, limits));
  MC2_ASSIGN(auto question, question_of(costs.model, request));
  watch_range(question, *op.first_m);
  return finder::find_ranges(finder::finding_on_device(device, limits, imported.kept()), question, *op.first_m);
}

Result<planner::PlanRanges> PlanCommand::ranges_described(const store::PlanRequest& request,
                                                          const std::optional<planner::CostModel>& model) const {
  MC2_ASSIGN(const auto named, described_model(request, model));
  MC2_ASSIGN(auto question, question_of(named, request));
  watch_range(question, *op.first_m);
  if (topology_file.empty()) return finder::find_ranges({.given = {named}}, question, *op.first_m);
  MC2_ASSIGN(auto topology, read_topology(topology_file));
  return finder::find_ranges(finder::finding_on_topology(std::move(topology), model), question, *op.first_m);
}

constexpr std::size_t kMaxShownBlocks = 40; ///< bytes

std::string PlanCommand::next_step(const planner::Plan& plan, bool is_tuned) const {
  if (plan.is_cut() && !plan.validation && plan.serial_us > 0 && plan.benefit() < 0) {
    const auto& blocks = plan.cut.block_rows;
    return "not cutting is predicted faster: --blocks " +
           std::to_string(std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0})) + " plans that";
  }
  if (is_elsewhere()) return "--verbose shows the timeline and the runners-up, --out keeps the plan";
  const bool names_experts = plan.op.experts_per_rank > 1; // the plan's counts do not hold each expert's rows
  if (!plan.counts.empty() && names_experts && counts_files.empty())
    return "--out keeps the plan; running it takes a file of counts for each expert (--counts)";
  if (!plan.counts.empty())
    return std::string("--out keeps the plan, and mc2 run --plan PLAN") + (names_experts ? " --counts FILE" : "") +
           " checks and times it with these counts";
  if (!blocks.empty()) {
    std::string named = blocks;
    std::erase(named, ' '); // a shell would split the argument there
    return "mc2 run --blocks " + render::clipped(named, kMaxShownBlocks) +
           ", with operator and machine as here, checks and times it; --verbose shows more";
  }
  if (is_tuned || plan.validation) return "mc2 run with the same options checks and times it; --verbose shows more";
  return "mc2 tune with the same options races it here; --verbose shows why it was chosen";
}

/// What the options assume of the costs, and what they minimise other than the expected makespan.
/// @param shows_reason  whether the plan's reason is shown, which has the assumptions unless the plan is of a race
std::vector<std::string> assumption_notes(const planner::PlanOptions& options, const planner::Plan& plan,
                                          bool shows_reason) {
  std::vector<std::string> notes;
  const std::string assumed = planner::assumptions_text(options, plan);
  if (!assumed.empty() && !(shows_reason && plan.reason.find(assumed) != std::string::npos)) notes.push_back(assumed);
  if (options.objective_quantile != planner::PlanOptions().objective_quantile)
    notes.push_back("as asked, the plan minimises the " + number_text(options.objective_quantile, 3) +
                    " quantile of the makespan");
  return notes;
}

/// The page of a plan. A kept plan may have more runners-up than --runners-up asks for; the rest is left out.
std::string PlanCommand::page(planner::Plan plan, const About& about) const {
  const auto most = static_cast<std::size_t>(planning.values.runner_up_count);
  if (planning.given.has("--runners-up") && plan.runners_up.size() > most) plan.runners_up.resize(most);
  return (is_verbose ? plan_page(plan, terminal_width(), has_color())
                     : render::answer(plan, next_step(plan, about.is_tuned), terminal_width())) +
         notes_text(about.notes);
}

ExitCode PlanCommand::show(const std::string& document, const std::string& page) const {
  std::cout << (is_json ? document : page);
  if (!out.empty()) write_file(out, document);
  return ExitCode::Success;
}

Result<planner::Plan> PlanCommand::plan(const store::PlanRequest& request,
                                        const std::optional<planner::CostModel>& model, About& about) const {
  if (!device.empty()) return plan_on_device(request, about);
  return is_elsewhere() ? plan_described(request, model) : plan_here(request, about);
}

Result<ExitCode> PlanCommand::run() const {
  MC2_TRY(check_output("--out", out, {model_file, topology_file, request_file}));
  for (const auto& file : counts_files) MC2_TRY(check_output("--out", out, {file}));
  MC2_TRY(check_server());
  MC2_TRY(check_device(device, !model_file.empty() || !topology_file.empty()));
  const bool times_here = is_anchored && device.empty() && topology_file.empty();
  if (is_elsewhere() && !times_here) MC2_TRY(machine.given.none_beside(document_option(), "machine"));
  MC2_TRY(machine.check_deadline(is_anchored, "--anchor"));
  if (!topology_file.empty()) MC2_TRY(check_topology_alone(!store.path.empty(), no_transfer));
  MC2_ASSIGN(const auto model, read_model_if_named(model_file));
  MC2_ASSIGN(const auto asked, request(model));
  if (op.first_m) {
    MC2_ASSIGN(const auto found, ranges(asked, model));
    return show(store::pretty(store::encode(found)), ranges_page(found, terminal_width()));
  }
  About about;
  MC2_ASSIGN(const auto found, plan(asked, model, about));
  const bool has_several_tables = asked.options.counts.size() > found.counts.size();
  for (auto& note : assumption_notes(asked.options, found, is_verbose || has_several_tables))
    about.notes.push_back(std::move(note));
  if (!found.counts.empty() && found.counts.size() == asked.options.counts.size() && !is_json)
    for (auto& note : skew_notes(found, asked, model)) about.notes.push_back(std::move(note));
  if (!is_json && !is_elsewhere() && !is_anchored) {
    if (const auto load = load_note_now(machine.backend))
      about.notes.push_back(*load + "; --anchor measures this machine as it is");
  }
  if (has_several_tables && !is_verbose) about.notes.push_back("why: " + found.reason);
  return show(store::pretty(store::encode(found)), page(found, about));
}

constexpr const char* kPlanExamples =
    "Examples:\n  mc2 plan --m 1024 --n 1024 --k 1024 --ranks 2 --link 2.5Gbit,20us\n"
    "  mc2 plan --m 1:16384 --n 1024 --k 1024 --link 2.5Gbit,20us --out by_m.json\n"
    "  mc2 plan --device ascend-910b --m 4096 --n 8192 --k 3072 --dtype f16 --ranks 8\n"
    "  mc2 plan --topology dgx_h100 --ranks 256 --m 8192 --n 8192 --k 8192";

} // namespace

Command add_plan(CLI::App& app, ServerOptions& server) {
  auto command = std::make_shared<PlanCommand>();
  command->server = &server;
  auto* sub = app.add_subcommand("plan", "show an operator's kept plan, or make one from a model");
  command->op.add_to(*sub, false, true);
  add_all(*sub, command->machine, command->store, command->planning, command->variant, server);
  sub->add_option(
      "--model", command->model_file,
      "use this model document instead of a kept model; operator options that are not given are as in the document");
  sub->add_option("--topology", command->topology_file,
                  std::string(kTopologyHelp) + "; --model gives the cost of its matmul");
  sub->add_option(
      "--device", command->device,
      "plan for this machine with its imported timings (mc2 import) and published costs, e.g. ascend-910b; an "
      "unknown name lists the known ones");
  sub->add_option("--request", command->request_file,
                  "read operator and options from this mc2.request/1 document (schemas/request.schema.json)");
  PlanningOptions::exclude_choosing(
      *sub->add_option("--blocks", command->blocks, "predict these blocks instead of choosing, e.g. 512,4x896")
           ->check(
               {[](std::string& text) { return std::string(text.empty() ? "is empty; legal: such as 512,4x896" : ""); },
                ""}));
  sub->add_option(
         "--imbalance", command->imbalance,
         "plan as if one rank's experts received this many times the mean number of rows, which is --m (all-to-all "
         "kinds)")
      ->check(real_number(1, planner::kMaxWorldSize));
  sub->add_option("--counts", command->counts_files,
                  std::string(kCountsHelp) +
                      "; with several files, the cut has the least mean of their makespans, or quantile (--objective)")
      ->expected(1, planner::kMaxCountTables);
  sub->add_option("--out", command->out, "also write the plan to this JSON file");
  sub->add_flag("--no-transfer", command->no_transfer, kNoTransferHelp);
  sub->add_flag("--anchor", command->is_anchored,
                "first time each lane alone, for 50 to 400 ms, and predict for the speed that the machine has now");
  add_json(*sub, command->is_json, "the plan");
  sub->add_flag("--verbose", command->is_verbose, "also print the timeline, the runners-up and how the plan was found");
  sub->footer(kPlanExamples);
  return {sub, [command] { return command->run(); }, true};
}

} // namespace mc2::cli
