#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "commands/commands.hpp"
#include "commands/push.hpp"
#include "kept_plan.hpp"
#include "machine_load.hpp"
#include "mc2/embed/store_keeper.hpp"
#include "mc2/embed/workbench.hpp"
#include "mc2/store/codec.hpp"
#include "options/layer_shapes.hpp"
#include "options/server_options.hpp"
#include "options/shapes.hpp"
#include "options/sweep_options.hpp"
#include "pages/race_page.hpp"
#include "pages/render.hpp"
#include "pages/report.hpp"
#include "pages/terminal.hpp"
#include "pages/tune_progress.hpp"

namespace mc2::cli {
namespace {

/// The store and service that plans come from and go to, and the printer.
struct Surroundings {
  store::Layers& layers;
  const std::optional<client::Client>& service;
  DocumentPrinter& documents; ///< used with --json
};

struct TuneCommand {
  OpOptions op;
  MachineOptions machine;
  StoreOptions store;
  PlanningOptions planning;
  SweepSettings sweep;
  VariantOption variant;
  const ServerOptions* server = nullptr;
  std::string shapes_file;
  bool is_fresh = false;
  bool may_transfer = false;
  bool is_json = false;
  bool is_verbose = false;

  [[nodiscard]] Result<std::vector<planner::OpSpec>> shapes() const;
  [[nodiscard]] Result<profiler::TuneSettings> settings() const;
  [[nodiscard]] Result<ExitCode> tune(const planner::OpSpec& spec, const profiler::TuneSettings& settings,
                                      const Surroundings& around) const;
  /// Keeps and prints the plan that another machine of this kind has tuned. Returns whether the service has one.
  [[nodiscard]] Result<bool> take_served(const finder::PlanQuestion& question, const Surroundings& around) const;
  [[nodiscard]] profiler::TuneSettings with_kept_model(profiler::TuneSettings settings, store::Layers& layers,
                                                       const planner::Fingerprint& here,
                                                       const planner::OpSpec& spec) const;
  [[nodiscard]] std::string page_of(const planner::Plan& plan) const {
    if (is_verbose) return plan_page(plan, terminal_width(), has_color());
    return render::answer(plan, "mc2 run with the same options checks and times it", terminal_width());
  }
  /// Prints a plan that was kept before.
  void print(const planner::Plan& kept, const std::string& document, DocumentPrinter& documents) const;
  void print(const profiler::Tuned& tuned, const std::string& digest, const Surroundings& around) const;
  /// The client of the service that gets what was tuned; none without a server. Errors: as ServerOptions::open.
  [[nodiscard]] Result<std::optional<client::Client>> receiver() const;
  [[nodiscard]] Result<void> send(const client::Client& client, const planner::OpSpec& spec,
                                  const profiler::TuneSettings& settings, store::Layers& layers) const;
  /// Checks what the backend can run before the first of several shapes is measured. Errors: Backend::supports, naming
  /// the shape.
  [[nodiscard]] Result<void> check_support(const std::vector<planner::OpSpec>& list) const;
  [[nodiscard]] Result<ExitCode> run() const;
};

/// The question that finds a plan which was tuned with these settings.
finder::PlanQuestion question_of(const planner::OpSpec& op, const profiler::TuneSettings& settings,
                                 const planner::Fingerprint& here) {
  finder::PlanQuestion question{.op = op, .machine = here, .options = settings.plan, .variant = settings.only};
  if (question.unusual_options().empty()) question.options.reset(); // a service is asked without usual options
  return question;
}

Result<std::optional<client::Client>> TuneCommand::receiver() const {
  if (!server->is_given()) return std::optional<client::Client>();
  if (variant.is_given()) {
    MC2_TRY(server->refuse_beside("--variant", "makes a plan of one variant, which no service keeps"));
    return std::optional<client::Client>();
  }
  MC2_ASSIGN(auto client, server->open());
  return std::optional(std::move(client));
}

Result<void> TuneCommand::send(const client::Client& client, const planner::OpSpec& spec,
                               const profiler::TuneSettings& settings, store::Layers& layers) const {
  MC2_ASSIGN(const auto here, machine.fingerprint(spec.world_size));
  const auto pushed = push(client, layers.writable(), question_of(spec, settings, here));
  if (!pushed) {
    const std::string kept = "; the tuned plan is kept here, and mc2 push can send it later";
    if (pushed.error().code != ErrorCode::Unsupported)
      return Error{pushed.error().code, pushed.error().field, pushed.error().message + kept};
    std::cerr << "mc2: note: " + pushed.error().text() + kept + "\n";
    return {};
  }
  std::cerr << "mc2: note: " + pushed.value().text(client.url()) + "\n";
  return {};
}

Result<std::vector<planner::OpSpec>> TuneCommand::shapes() const {
  if (shapes_file.empty()) {
    MC2_ASSIGN(const auto spec, op.spec());
    return std::vector{spec};
  }
  if (op.is_given()) return Error{ErrorCode::InvalidSpec, "--shapes", "names the shapes; leave out --m, --n and --k"};
  MC2_ASSIGN(const auto content, read_file(shapes_file));
  auto shapes = parse_shapes(content, shapes_file, op);
  if (shapes || !parse_layer_shapes(content, shapes_file)) return shapes;
  return Error{shapes.error().code, shapes_file,
               "lists layers, as mc2 sweep --shapes takes them; tuning needs operators, with the columns m, n, k and "
               "the optional ones in mc2 tune --help"};
}

Result<void> TuneCommand::check_support(const std::vector<planner::OpSpec>& list) const {
  if (shapes_file.empty()) return {}; // one shape is refused before it is measured
  MC2_ASSIGN(const auto backend, machine.find());
  for (std::size_t i = 0; i < list.size(); ++i)
    if (const auto supported = backend->supports(list[i]); !supported)
      return Error{supported.error().code, shapes_file,
                   "shape " + std::to_string(i + 1) + " (" + list[i].text() + "): " + supported.error().text()};
  return {};
}

Result<profiler::TuneSettings> TuneCommand::settings() const {
  profiler::TuneSettings result;
  MC2_ASSIGN(const auto backend, machine.find());
  MC2_ASSIGN(result.plan, planning.options_on(*backend));
  result.profile = sweep.settings();
  MC2_ASSIGN(result.only, variant.chosen());
  result.budget = result.profile.sweep.budget;
  return result;
}

profiler::TuneSettings TuneCommand::with_kept_model(profiler::TuneSettings settings, store::Layers& layers,
                                                    const planner::Fingerprint& here,
                                                    const planner::OpSpec& spec) const {
  if (!may_transfer) return settings;
  auto found = find_kept_model({.op = spec, .machine = here}, layers);
  const auto origin = [&] {
    const auto& transfer = found.value().transfer;
    return transfer ? transfer->reason : "of m=" + std::to_string(found.value().model.op.m);
  };
  std::cerr << "mc2: "
            << (found ? "not profiled; planned from kept model " + origin()
                      : "profiling, because no kept model answers: " + found.error().text())
            << "\n";
  if (!found) return settings;
  settings.known_model = std::make_shared<planner::CostModel>(std::move(found.value().model)); // perhaps of another m
  return settings;
}

void TuneCommand::print(const planner::Plan& kept, const std::string& document, DocumentPrinter& documents) const {
  if (is_json)
    documents.print(document);
  else
    std::cout << page_of(kept);
}

void TuneCommand::print(const profiler::Tuned& tuned, const std::string& digest, const Surroundings& around) const {
  if (is_json) return around.documents.print(store::encode(tuned.plan));
  if (is_verbose) {
    if (tuned.model) std::cout << model_page(*tuned.model, terminal_width()) << "\n";
    std::cout << notes_text(tuned.notes);
    std::cout << "\n  raced on this machine, beside the uncut plan\n"
              << race_table(tuned.race, tuned.contenders) << "\n";
  }
  std::cout << page_of(tuned.plan);
  std::cout << "  kept as plan " << digest.substr(0, 12) << " in " << around.layers.writable().path().string() << "\n";
}

Result<bool> TuneCommand::take_served(const finder::PlanQuestion& question, const Surroundings& around) const {
  const auto served = around.service->find_plan(question);
  if (!served || served.value().source != "stored") return false; // no service or no tuned plan: measure here
  const store::PlanAnswer& answer = served.value();
  MC2_TRY(around.layers.writable().put_plan(answer.plan, finder::tuned_purpose(question), answer.created_at));
  std::cerr << "mc2: already tuned at " << answer.created_at << ", says " << around.service->url()
            << "; --fresh measures here\n";
  print(answer.plan, answer.document, around.documents);
  return true;
}

Result<ExitCode> TuneCommand::tune(const planner::OpSpec& spec, const profiler::TuneSettings& settings,
                                   const Surroundings& around) const {
  MC2_ASSIGN(const auto backend, machine.find());
  MC2_ASSIGN(const auto options, machine.communicator_options(spec.world_size));
  MC2_ASSIGN(auto variants, variant.choose(*backend, options, spec));
  const planner::Fingerprint here = backend->fingerprint(options);
  const finder::PlanQuestion question = question_of(spec, settings, here);
  const std::string purpose = finder::tuned_purpose(question);
  store::Store& writable = around.layers.writable();
  std::string damage; // why the kept plan cannot be read
  if (!is_fresh) {
    const auto kept = writable.find_plan({spec, store::digest(here), purpose});
    if (kept) {
      std::cerr << "mc2: already tuned on this machine at " << kept.value().created_at << "; --fresh measures again\n";
      print(kept.value().plan, kept.value().document, around.documents);
      return ExitCode::Success;
    }
    if (kept.error().code != ErrorCode::NotFound) damage = kept.error().text();
  }
  if (around.service && !is_fresh) {
    MC2_ASSIGN(const auto taken, take_served(question, around));
    if (taken) return ExitCode::Success;
  }
  tell_load(backend->name());
  MC2_ASSIGN(auto bench, embed::Workbench::open(*backend, options, spec, sweep.seed, std::move(variants)));
  embed::StoreKeeper keeper(embed::access_to(writable), *bench, settings);
  if (is_fresh) keeper.start_afresh(variant.text.value_or(""));
  TuneProgressLine progress;
  const auto asked = with_kept_model(settings, around.layers, here, spec);
  const auto tuned = profiler::tune(*bench, asked, keeper, progress.hooks());
  progress.clear();
  if (!tuned) return tuned.error();
  if (!damage.empty()) std::cerr << "mc2: note: " << damage << "; the new plan replaces it\n";
  print(tuned.value(), keeper.plan_digest(), around);
  return ExitCode::Success;
}

Result<ExitCode> TuneCommand::run() const {
  MC2_ASSIGN(const auto list, shapes());
  MC2_ASSIGN(const auto checked, settings());
  MC2_TRY(check_support(list));
  MC2_ASSIGN(const auto client, receiver());
  MC2_ASSIGN(auto layers, store.open(StoreUse::Write));
  DocumentPrinter documents(is_json && !shapes_file.empty());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list.size() > 1) std::cerr << "mc2: shape " << i + 1 << " of " << list.size() << ": " << list[i].text() << "\n";
    MC2_TRY(tune(list[i], checked, {layers, client, documents}));
    if (client) MC2_TRY(send(*client, list[i], checked, layers));
  }
  return ExitCode::Success;
}

} // namespace

Command add_tune(CLI::App& app, ServerOptions& server) {
  auto command = std::make_shared<TuneCommand>();
  command->server = &server;
  auto* sub = app.add_subcommand("tune", "measure here, race the best cuts, keep the winner");
  command->op.add_to(*sub, false);
  add_all(*sub, command->machine, command->store, command->planning);
  command->sweep.add_to(*sub, false);
  add_all(*sub, command->variant, server);
  sub->add_option(
      "--shapes", command->shapes_file,
      "tune every shape of this CSV file: columns m, n, k; op, dtype, ranks, tables, table_rows, pooling, epilogue, "
      "experts_per_rank, experts and top_k are optional and replace the options");
  sub->add_flag("--fresh", command->is_fresh,
                "measure again what was tuned before; the old plan is kept until the new one replaces it");
  sub->add_flag(
      "--transfer", command->may_transfer,
      "plan from the model of the nearest shape kept for this machine instead of profiling; the race decides");
  add_json(*sub, command->is_json, "the kept plan, or those of --shapes as an array,");
  sub->add_flag("--verbose", command->is_verbose, "also print the model, the races, the timeline and the runners-up");
  sub->footer(
      "Examples:\n  mc2 tune --m 1024 --n 1024 --k 1024 --ranks 2 --link 2.5Gbit,20us\n"
      "  mc2 tune --measurements 20 --m 1024 --n 1024 --k 1024 --link 2.5Gbit,20us\n"
      "  mc2 tune --shapes data/shapes.csv --link 2.5Gbit,20us\n"
      "Interrupted work resumes: run the same command again.");
  return {sub, [command] { return command->run(); }, true};
}

} // namespace mc2::cli
