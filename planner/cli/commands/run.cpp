#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <span>

#include "commands/commands.hpp"
#include "kept_plan.hpp"
#include "machine_load.hpp"
#include "mc2/embed/store_keeper.hpp"
#include "mc2/embed/workbench.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/routing.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/render/plan_page.hpp"
#include "mc2/store/codec.hpp"
#include "options/counts_file.hpp"
#include "options/numbers.hpp"
#include "pages/race_page.hpp"
#include "pages/render.hpp"
#include "pages/report.hpp"
#include "pages/terminal.hpp"
#include "pages/trace.hpp"
#include "pages/tune_progress.hpp"

namespace mc2::cli {
namespace {

struct RunCommand {
  OpOptions op;
  MachineOptions machine;
  StoreOptions store;
  PlanningOptions planning;
  VariantOption variant;
  const ServerOptions* server = nullptr;
  std::string plan_name, blocks, trace_file, counts_file;
  ExchangeCounts counts; ///< from counts_file; else empty
  bool accept_other_machine = false;
  bool no_transfer = false;
  bool is_json = false;
  std::uint64_t seed = 0;
  int ranks_per_device = 1;
  profiler::RaceSettings race;
  double budget_s = 60;

  [[nodiscard]] Result<planner::Plan> find_plan(store::Layers* layers, const planner::Fingerprint& here,
                                                std::span<const planner::Variant> variants) const;
  [[nodiscard]] Result<planner::Plan> plan_of_blocks(const finder::PlanQuestion& question, store::Layers* layers,
                                                     std::span<const planner::Variant> variants) const;
  [[nodiscard]] Result<finder::FoundModel> model_of_blocks(const finder::PlanQuestion& question,
                                                           store::Layers* layers) const;
  /// Reads the file of counts. Without --plan, completes the operator from it. Errors: as read_counts and
  /// ExchangeCounts::complete.
  [[nodiscard]] Result<void> take_counts();
  /// Opens the store to look up the operator, whose options must be legal.
  [[nodiscard]] Result<store::Layers> open_asked(const planner::Fingerprint& here) const;
  [[nodiscard]] Error with_advice_on_counts(const Error& missing) const;
  /// The plan with predictions for the counts that are exchanged now. Without its model, the plan without predictions:
  /// those for other counts are dropped.
  [[nodiscard]] planner::Plan with_counts(planner::Plan plan, store::Layers* layers) const;
  /// Errors: as finder::find_model and finder::with_prediction.
  [[nodiscard]] Result<planner::Plan> predict_for(const planner::RowCounts& wanted, const planner::Plan& plan,
                                                  store::Layers* layers) const;
  [[nodiscard]] Result<std::optional<planner::Plan>> named_plan() const;
  /// The table of as many runners-up as --runners-up asks for; empty without it.
  [[nodiscard]] std::string runners_up_text(planner::Plan plan) const;
  [[nodiscard]] store::Measurement measurement_of(const profiler::Contender& raced, const planner::Plan& plan,
                                                  store::Layers& layers) const;
  [[nodiscard]] Result<void> check_runs_here(const planner::Plan& plan, const planner::Fingerprint& here) const;
  [[nodiscard]] Result<void> share_devices() const;
  [[nodiscard]] Result<ExitCode> run();
  void keep(const embed::Workbench& bench, const planner::Plan& plan, const profiler::Contender& raced,
            store::Layers* layers) const;
  [[nodiscard]] Result<ExitCode> measure(embed::Workbench& bench, const planner::Plan& plan,
                                         store::Layers* layers) const;
};

Result<void> RunCommand::take_counts() {
  if (counts_file.empty()) return {};
  MC2_ASSIGN(counts, read_counts(counts_file));
  return plan_name.empty() ? counts.complete(op) : Result<void>();
}

/// Errors: NotFound without a store; as find_kept_model.
Result<finder::FoundModel> RunCommand::model_of_blocks(const finder::PlanQuestion& question,
                                                       store::Layers* layers) const {
  if (layers == nullptr) return Error{ErrorCode::NotFound, "store", "there is none"};
  return find_kept_model(question, *layers, *server);
}

/// The plan of the blocks that --blocks names. Without a kept model it has no predictions, and the first variant runs
/// it.
Result<planner::Plan> RunCommand::plan_of_blocks(const finder::PlanQuestion& question, store::Layers* layers,
                                                 std::span<const planner::Variant> variants) const {
  MC2_ASSIGN(const auto cut, planner::parse_cut(blocks));
  auto model = model_of_blocks(question, layers);
  if (!model && model.error().code == ErrorCode::NotFound) {
    if (server->is_given()) std::cerr << "mc2: note: " << model.error().text() << "\n";
    return planner::unpredicted_plan(question.op, question.machine, variants.front(), cut);
  }
  if (!model) return model.error();
  // Only the first variant is sure to exchange unequal splits.
  if (!counts.rows.empty()) model.value().model.variants.resize(1);
  return finder::predict_with(model.value(), question, cut);
}

Result<store::Layers> RunCommand::open_asked(const planner::Fingerprint& here) const {
  return open_to_look_up(store, *server, op.spec().value(), here);
}

/// The plan of the given blocks; else the plan that was tuned for this operator, machine and options; else one from the
/// kept model.
Result<planner::Plan> RunCommand::find_plan(store::Layers* layers, const planner::Fingerprint& here,
                                            std::span<const planner::Variant> variants) const {
  MC2_ASSIGN(const auto spec, op.spec());
  MC2_ASSIGN(const auto request, planning.request(spec));
  MC2_ASSIGN(const auto question, plan_question(request, here, variant, !no_transfer));
  if (!blocks.empty()) return plan_of_blocks(question, layers, variants);
  MC2_ASSIGN(auto found, find_plan_for(question, *layers, *server));
  return std::move(found).stored.plan;
}

/// Completes the advice: the command that makes a plan takes --m, as it measures equal splits.
Error RunCommand::with_advice_on_counts(const Error& missing) const {
  if (counts.rows.empty() || missing.code != ErrorCode::NotFound) return missing;
  const std::string experts =
      counts.experts_per_rank > 1 ? " --experts-per-rank " + std::to_string(counts.experts_per_rank) : "";
  return {missing.code, missing.field,
          missing.message + "; mc2 tune takes --m " + std::to_string(*op.m) + experts + " in place of --counts"};
}

planner::Plan RunCommand::with_counts(planner::Plan plan, store::Layers* layers) const {
  const planner::RowCounts wanted = counts.rows.empty() ? planner::RowCounts() : counts.by_rank();
  if (plan.counts == wanted) return plan;
  auto predicted = predict_for(wanted, plan, layers);
  if (predicted && predicted.value().schedule == plan.schedule) {
    predicted.value().validation.reset(); // it is for other rows
    predicted.value().reason = "the plan's blocks, predicted for the rows that are exchanged now";
    return std::move(predicted).value();
  }
  auto unpredicted =
      planner::unpredicted_plan(plan.op, plan.fingerprint, plan.variant, plan.cut, plan.schedule).value();
  unpredicted.counts = wanted;
  return unpredicted;
}

Result<planner::Plan> RunCommand::predict_for(const planner::RowCounts& wanted, const planner::Plan& plan,
                                              store::Layers* layers) const {
  if (layers == nullptr) return Error{ErrorCode::NotFound, "store", "there is none"};
  finder::PlanQuestion question{.op = plan.op,
                                .machine = plan.fingerprint,
                                .options = planner::default_options_on(plan.fingerprint),
                                .variant = plan.variant,
                                .may_transfer = !no_transfer};
  question.options->counts = wanted;
  MC2_ASSIGN(const auto found, finder::find_model(*layers, question));
  return finder::with_prediction(plan, found, question);
}

/// The measurement to keep, with the model's present prediction of the uncut parts if there is a model.
store::Measurement RunCommand::measurement_of(const profiler::Contender& raced, const planner::Plan& plan,
                                              store::Layers& layers) const {
  const auto found =
      finder::find_model(layers, {.op = plan.op, .machine = plan.fingerprint, .may_transfer = !no_transfer});
  if (!found) return embed::measurement_of(raced, plan);
  return embed::measurement_of(raced, plan, finder::as_it_is_now(found.value(), plan.op));
}

std::string RunCommand::runners_up_text(planner::Plan plan) const {
  const auto most = static_cast<std::size_t>(planning.values.runner_up_count);
  if (plan.runners_up.size() > most) plan.runners_up.resize(most); // a kept plan may have more
  if (!planning.given.has("--runners-up") || plan.runners_up.empty()) return {};
  return "\n" + render::runner_up_table(plan, terminal_width());
}

/// Keeps the measurement with its prediction, if that is for equal counts on this machine; else tells why it does not.
void RunCommand::keep(const embed::Workbench& bench, const planner::Plan& plan, const profiler::Contender& raced,
                      store::Layers* layers) const {
  const auto tell = [](const std::string& why) {
    std::cerr << "mc2: note: the measurement was not kept: " << why << "\n";
  };
  const bool is_predicted = plan.makespan.us > 0;
  if (!counts.rows.empty())
    return tell(std::to_string(counts.total()) + " of at most " + std::to_string(plan.op.m * plan.op.world_size) +
                " rows were exchanged" + (counts_file.empty() ? ", as the plan says" : "") +
                (is_predicted ? "" : ", and nothing is predicted for these counts"));
  if (!is_predicted || layers == nullptr) return;
  if (!(plan.fingerprint == bench.fingerprint())) return tell("the plan's predictions are for another machine");
  const auto kept =
      layers->writable().add_measurement(bench.fingerprint(), measurement_of(raced, plan, *layers), utc_now());
  if (!kept) tell(kept.error().text());
}

Result<ExitCode> RunCommand::measure(embed::Workbench& bench, const planner::Plan& plan, store::Layers* layers) const {
  MC2_ASSIGN(auto checked, bench.check(plan));
  if (bench.fingerprint().is_shared_device()) {
    if (is_json)
      print_report("mc2.run/1", verification_report(plan, checked));
    else
      std::cout << verification_page(plan, checked, bench.fingerprint(), terminal_width());
    return ExitCode::Success;
  }
  profiler::RaceSettings settings = race;
  settings.budget = planner::to_ms(budget_s);
  TuneProgressLine progress;
  auto raced = profiler::race(bench, {&plan, 1}, settings, "run " + plan.op.text(), progress.hooks());
  progress.clear();
  if (!raced) return raced.error();
  MC2_ASSIGN(auto ready, bench.ready(plan));
  const executor::RunRecord& record = ready->run(executor::RunMode::Fused);
  keep(bench, plan, raced.value().contenders.front(), layers);
  if (is_json)
    print_report("mc2.run/1", run_report(plan, raced.value(), checked, bench.fingerprint()));
  else
    std::cout << run_page(plan, raced.value(), checked, record, bench.fingerprint(), terminal_width(), has_color())
              << runners_up_text(plan);
  if (trace_file.empty()) return ExitCode::Success;
  write_file(trace_file, chrome_trace(plan, record, bench.fingerprint()));
  if (!is_json) std::cout << "  trace written to " << trace_file << " (open in ui.perfetto.dev)\n";
  return ExitCode::Success;
}

/// The plan that --plan names; none if options name the operator.
Result<std::optional<planner::Plan>> RunCommand::named_plan() const {
  if (plan_name.empty()) {
    MC2_TRY(op.spec());
    return std::optional<planner::Plan>();
  }
  MC2_TRY(op.given.none_beside("--plan", "operator"));
  MC2_TRY(planning.given.none_beside("--plan", "options"));
  if (!blocks.empty() || variant.is_given())
    return Error{ErrorCode::InvalidSpec, "--plan", "names blocks and variant; leave out --blocks and --variant"};
  MC2_ASSIGN(auto loaded, load_plan(plan_name, "--plan", store, *server));
  return std::optional(std::move(loaded).plan);
}

Result<void> RunCommand::check_runs_here(const planner::Plan& plan, const planner::Fingerprint& here) const {
  const auto world_text = [](std::int64_t ranks, std::int64_t experts) {
    return std::to_string(ranks) + " ranks" + (experts > 1 ? " with " + std::to_string(experts) + " experts each" : "");
  };
  const bool is_other_world = counts.ranks != plan.op.world_size || counts.experts_per_rank != plan.op.experts_per_rank;
  if (!counts.rows.empty() && is_other_world)
    return Error{ErrorCode::InvalidSpec, "--counts",
                 "are of " + world_text(counts.ranks, counts.experts_per_rank) + "; the plan is of " +
                     world_text(plan.op.world_size, plan.op.experts_per_rank)};
  if (!accept_other_machine) return require_made_here(plan, here, "--plan");
  return {};
}

/// Lets ranks share devices, if that is asked for. Errors: InvalidSpec.
Result<void> RunCommand::share_devices() const {
  if (ranks_per_device == 1) return {};
  if (machine.backend != "cuda")
    return Error{ErrorCode::InvalidSpec, "--ranks-per-device", "is for --backend cuda alone; leave it out"};
  if (!trace_file.empty())
    return Error{ErrorCode::InvalidSpec, "--trace", "has no times to show where ranks share a device; leave it out"};
  setenv("MC2_RANKS_PER_DEVICE", std::to_string(ranks_per_device).c_str(), 1);
  return {};
}

/// A store or a service may hold a plan that another program put there. Errors: Stale where its variant is none of the
/// backend's.
Result<void> require_known_variant(const executor::Backend& backend, const executor::CommunicatorOptions& options,
                                   const planner::Plan& plan) {
  const auto legal = backend.check_variant(plan.op, options, plan.variant);
  if (legal) return {};
  return Error{ErrorCode::Stale, "plan",
               "that was found cannot run: " + legal.error().message +
                   "; mc2 tune --fresh with the same operator, link and planning options puts another in its place"};
}

Result<ExitCode> RunCommand::run() {
  MC2_TRY(share_devices());
  MC2_ASSIGN(const auto backend, machine.find());
  MC2_ASSIGN(const auto named, named_plan());
  if (named && counts_file.empty()) {
    MC2_ASSIGN(counts, counts_of(*named));
  }
  const int ranks = named ? named->op.world_size : op.ranks;
  MC2_ASSIGN(const auto options, machine.communicator_options(ranks));
  std::vector<planner::Variant> variants;
  if (!named) {
    MC2_TRY(backend->supports(op.spec().value()));
    MC2_ASSIGN(variants, variant.choose(*backend, options, op.spec().value()));
  }
  const planner::Fingerprint here = backend->fingerprint(options);
  auto layers = named ? store.open(StoreUse::Keep) : open_asked(here);
  if (!layers && store.is_named()) return with_advice_on_counts(layers.error());
  if (!layers && blocks.empty()) return layers.error();
  store::Layers* const kept = layers ? &layers.value() : nullptr;
  const auto plan = named ? Result<planner::Plan>(*named) : find_plan(kept, here, variants);
  if (!plan) return plan.error();
  MC2_TRY(check_runs_here(plan.value(), here));
  if (!named && blocks.empty()) MC2_TRY(require_known_variant(*backend, options, plan.value()));
  const planner::Plan predicted = with_counts(plan.value(), kept);
  tell_load(backend->name());
  MC2_ASSIGN(auto bench,
             embed::Workbench::open(*backend, options, plan.value().op, {seed, counts.rows}, std::move(variants)));
  if (!counts.rows.empty()) bench->keep_variants({plan.value().variant}); // other variants may take equal splits only
  return measure(*bench, predicted, kept);
}

void add_options(RunCommand& command, CLI::App& sub) {
  sub.add_option("--plan", command.plan_name, "a plan file, or the digest of a kept plan");
  PlanningOptions::exclude_choosing(*sub.add_option("--blocks", command.blocks, "run these blocks, e.g. 512,4x896")
                                         ->check([](const std::string& text) {
                                           return text.empty() ? std::string("is empty; name the rows of each block")
                                                               : std::string();
                                         }));
  sub.add_flag("--no-transfer", command.no_transfer, kNoTransferHelp);
  sub.add_option("--counts", command.counts_file,
                 "exchange these rows, a CSV file (all-to-all kinds): line r has what rank r sends to each rank, or to "
                 "each expert");
  sub.add_option("--trace", command.trace_file, "write a Chrome/Perfetto trace, measured beside predicted");
  sub.add_flag("--accept-other-machine", command.accept_other_machine, "run a plan that was made for another machine");
  sub.add_option("--pairs", command.race.max_rounds, "most fused/serial pairs")
      ->capture_default_str()
      ->check(whole_number(command.race.min_rounds, 100'000));
  sub.add_option("--budget", command.budget_s, "seconds after which no new pair starts")
      ->capture_default_str()
      ->check(real_number(0.001, 86'400));
  sub.add_option("--seed", command.seed, "seed of the random matrices; 0 takes a new seed each time")
      ->capture_default_str()
      ->check(whole_number(0, kMaxSeed));
  sub.add_option("--ranks-per-device", command.ranks_per_device,
                 "backend cuda: let so many ranks share a GPU, to check results where there are few; shows no times")
      ->capture_default_str()
      ->check(whole_number(1, 8));
  add_json(sub, command.is_json, "plan and times");
}

} // namespace

Command add_run(CLI::App& app, ServerOptions& server) {
  auto command = std::make_shared<RunCommand>();
  command->server = &server;
  auto* sub = app.add_subcommand("run", "check a plan's result, then time it against serial");
  command->op.add_to(*sub, false);
  add_all(*sub, command->machine, command->store, command->planning, command->variant, server);
  add_options(*command, *sub);
  sub->footer(
      "Examples:\n  mc2 run --m 1024 --n 1024 --k 1024 --link 2.5Gbit,20us --trace trace.json\n"
      "  mc2 run --plan plan.json --link 2.5Gbit,20us");
  return {sub,
          [command] {
            const std::vector<std::string> read{command->plan_name, command->counts_file};
            if (auto kept = check_output("--trace", command->trace_file, read); !kept)
              return Result<ExitCode>(kept.error());
            if (auto taken = command->take_counts(); !taken) return Result<ExitCode>(taken.error());
            if (command->seed == 0) command->seed = fresh_seed();
            return command->run();
          },
          true};
}

} // namespace mc2::cli
