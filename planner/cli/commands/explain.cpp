#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "commands/commands.hpp"
#include "imported_store.hpp"
#include "kept_plan.hpp"
#include "machine_load.hpp"
#include "mc2/embed/workbench.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/explanation.hpp"
#include "mc2/store/codec.hpp"
#include "options/counts_file.hpp"
#include "options/document_file.hpp"
#include "options/model_file.hpp"
#include "pages/explain_evidence.hpp"
#include "pages/explain_html.hpp"
#include "pages/explain_page.hpp"
#include "pages/race_page.hpp"
#include "pages/report.hpp"
#include "pages/terminal.hpp"

namespace mc2::cli {
namespace {

struct ExplainCommand {
  OpOptions op;
  MachineOptions machine;
  StoreOptions store;
  const ServerOptions* server = nullptr;
  std::string plan_name, model_file, profile_file, html_file;
  PlanningOptions planning; ///< the limits that the plan was made within
  bool is_json = false, is_full = false, is_measuring = false, accept_other_machine = false, no_transfer = false;

  [[nodiscard]] Result<store::StoredPlan> find() const;
  [[nodiscard]] Result<store::StoredPlan> predicted(store::StoredPlan kept) const;
  [[nodiscard]] Result<Evidence> gather(const store::StoredPlan& stored) const;
  /// Adds the model of the plan's device from its published or imported costs.
  void add_device_model(Evidence& evidence, const planner::Plan& plan) const;
  /// Adds the service's model if there is no other.
  void add_served_model(Evidence& evidence, const planner::Plan& plan) const;
  [[nodiscard]] Result<planner::MeasuredRun> measure(const planner::Plan& plan) const;
  [[nodiscard]] Result<ExitCode> run() const;
};

/// Adds the predictions of the kept model to a plan that was raced without a model. Any other plan stays as it is.
/// Errors: as check_predicted where no model is kept.
Result<store::StoredPlan> ExplainCommand::predicted(store::StoredPlan kept) const {
  const planner::Plan& raced = kept.plan;
  const std::string name = plan_name.empty() ? "the kept plan" : plan_name;
  const auto refused = check_predicted(raced, name, plan_name.empty() ? "" : "PLAN");
  if (refused) return kept;
  const finder::PlanQuestion question{
      .op = raced.op, .machine = raced.fingerprint, .variant = raced.variant, .may_transfer = !no_transfer};
  auto layers = store.open(look_up_use(*server));
  if (!layers) return refused.error();
  const auto model = find_kept_model(question, layers.value(), *server);
  if (!model) return refused.error();
  MC2_ASSIGN(kept.plan, finder::with_prediction(raced, model.value(), question));
  std::cerr << "mc2: note: " << name
            << " was raced where there was no model; it is explained by the one that is kept now\n";
  return kept;
}

Result<store::StoredPlan> ExplainCommand::find() const {
  if (!plan_name.empty()) {
    MC2_TRY(op.given.none_beside("PLAN", "operator"));
    if (!is_measuring) MC2_TRY(machine.given.none_beside("PLAN", "machine"));
    return load_plan(plan_name, "PLAN", store, *server);
  }
  if (!op.is_given())
    return Error{ErrorCode::InvalidSpec, "PLAN",
                 "is missing; give a plan file, the digest of a kept plan, or --m, --n and --k"};
  MC2_ASSIGN(const auto spec, op.spec());
  MC2_ASSIGN(const auto here, machine.fingerprint(spec.world_size));
  MC2_ASSIGN(auto layers, open_to_look_up(store, *server, spec, here));
  MC2_ASSIGN(const auto request, planning.request(spec));
  MC2_ASSIGN(const auto question, plan_question(request, here, {}, !no_transfer));
  MC2_ASSIGN(auto found, find_plan_for(question, layers, *server));
  return std::move(found).stored;
}

void ExplainCommand::add_device_model(Evidence& evidence, const planner::Plan& plan) const {
  const std::string device(plan.fingerprint.field("device"));
  if (evidence.model || device.empty() || !plan.fingerprint.is_elsewhere()) return;
  const auto imported = ImportedStore::open(store);
  if (!imported) return; // look_up() reports this
  auto costs = imported.value().costs(device, plan.op, planner::PlanOptions());
  if (costs) evidence.model = std::move(costs).value().model;
}

void ExplainCommand::add_served_model(Evidence& evidence, const planner::Plan& plan) const {
  if (evidence.model || !server->is_given()) return;
  const auto client = server->open();
  auto model =
      client ? client.value().find_model(plan.op, plan.fingerprint) : Result<planner::CostModel>(client.error());
  if (model)
    evidence.model = std::move(model).value();
  else
    evidence.notes.push_back("the service has no model: " + model.error().text());
}

Result<Evidence> ExplainCommand::gather(const store::StoredPlan& stored) const {
  Evidence evidence = evidence_of(stored);
  MC2_ASSIGN(evidence.model, read_model_if_named(model_file));
  if (!profile_file.empty()) {
    MC2_ASSIGN(evidence.profile, read_document(profile_file, store::decode_profile));
  }
  add_device_model(evidence, stored.plan);
  auto layers = store.open(look_up_use(*server));
  if (layers)
    look_up(evidence, stored.plan, layers.value());
  else if (layers.error().code == ErrorCode::NotFound)
    note_missing(evidence, layers.error().text());
  else
    evidence.notes.push_back("the store cannot be read: " + layers.error().text());
  add_served_model(evidence, stored.plan);
  drop_foreign(evidence, stored.plan);
  return evidence;
}

/// The timeline, moved so that the earlier of its lanes starts at 0.
planner::Timeline from_zero(planner::Timeline timeline) {
  const double start_us = std::min(timeline.first.front().start_us, timeline.second.front().start_us);
  timeline.makespan_us = 0;
  for (auto* lane : {&timeline.first, &timeline.second})
    for (auto& block : *lane) {
      block = {block.start_us - start_us, block.end_us - start_us};
      timeline.makespan_us = std::max(timeline.makespan_us, block.end_us);
    }
  timeline.overlap_us = planner::timeline_use(timeline).overlap_us;
  return timeline;
}

/// Measures a few runs after some that warm the caches, and returns the one with the median time.
Result<planner::MeasuredRun> ExplainCommand::measure(const planner::Plan& plan) const {
  constexpr int kWarmupCount = 2, kRunCount = 5;
  MC2_ASSIGN(const auto backend, machine.find());
  MC2_ASSIGN(const auto options, machine.communicator_options(plan.op.world_size));
  const planner::Fingerprint here = backend->fingerprint(options);
  MC2_TRY(here.require_speeds());
  if (!accept_other_machine) MC2_TRY(require_made_here(plan, here, "--measure"));
  MC2_ASSIGN(const auto counts, counts_of(plan));
  tell_load(backend->name());
  MC2_ASSIGN(auto bench, embed::Workbench::open(*backend, options, plan.op, {fresh_seed(), counts.rows}));
  if (!counts.rows.empty()) bench->keep_variants({plan.variant}); // other variants may take equal splits only
  MC2_TRY(bench->check(plan));
  MC2_ASSIGN(auto prepared, bench->ready(plan));
  std::vector<planner::Timeline> runs;
  for (int i = 0; i < kWarmupCount + kRunCount; ++i) {
    if (is_interrupted()) return Error{ErrorCode::Cancelled, "--measure", "interrupted"};
    const auto& record = prepared->run(executor::RunMode::Fused);
    if (i >= kWarmupCount) runs.push_back(from_zero(measured_timeline(plan.op, record)));
  }
  const auto middle = runs.begin() + kRunCount / 2;
  std::nth_element(runs.begin(), middle, runs.end(),
                   [](const auto& a, const auto& b) { return a.makespan_us < b.makespan_us; });
  return planner::MeasuredRun{*middle, planner::timeline_use(*middle)};
}

Result<ExitCode> ExplainCommand::run() const {
  MC2_TRY(check_output("--html", html_file, {plan_name, model_file, profile_file}));
  if (accept_other_machine && !is_measuring)
    return Error{ErrorCode::InvalidSpec, "--accept-other-machine", "is for --measure; add it, or leave this out"};
  MC2_TRY(machine.check_deadline(is_measuring, "--measure"));
  MC2_ASSIGN(const auto limits, planning.limits());
  MC2_ASSIGN(auto named, find());
  MC2_ASSIGN(const auto stored, predicted(std::move(named)));
  const planner::Plan& plan = stored.plan;
  MC2_ASSIGN(const auto evidence, gather(stored));
  const auto model = model_of_plan(evidence);
  auto explained = planner::explain(plan, model ? &*model : nullptr, planner::likely_limits(plan, limits));
  if (!explained) {
    if (!plan_name.empty()) return Error{explained.error().code, plan_name, explained.error().text()};
    return explained.error();
  }
  planner::Explanation explanation = std::move(explained).value();
  if (is_measuring) {
    MC2_ASSIGN(explanation.measured, measure(plan));
  }
  if (is_json) {
    for (const auto& note : evidence.notes) explanation.notes.push_back(note);
    std::cout << store::pretty(store::encode(explanation));
  } else
    std::cout << (is_full ? full_explain_page : explain_page)(explanation, evidence, terminal_width(), has_color());
  if (html_file.empty()) return ExitCode::Success;
  write_file(html_file, explain_html(explanation, evidence));
  if (!is_json) std::cout << "\n  report written to " << html_file << " (opens in any browser, offline)\n";
  return ExitCode::Success;
}

} // namespace

Command add_explain(CLI::App& app, ServerOptions& server) {
  auto command = std::make_shared<ExplainCommand>();
  command->server = &server;
  auto* sub = app.add_subcommand("explain", "say why a plan was chosen, and what would change it");
  sub->add_option("PLAN", command->plan_name, "a plan file, or the digest of a kept plan");
  command->op.add_to(*sub, false);
  add_all(*sub, command->machine, command->store, server);
  sub->add_option("--html", command->html_file, "also write a report with plots to this HTML file");
  add_json(*sub, command->is_json, "the explanation");
  sub->add_flag("--all", command->is_full, "print every table, at full width");
  sub->add_flag("--measure", command->is_measuring,
                "run the plan here and show its measured timeline beside the predicted one");
  sub->add_flag("--accept-other-machine", command->accept_other_machine,
                "measure a plan that was made for another machine");
  sub->add_flag("--no-transfer", command->no_transfer, kNoTransferHelp);
  sub->add_option("--model", command->model_file, "use this model document instead of the kept one");
  sub->add_option("--profile", command->profile_file, "show this profile document's samples instead of the kept ones");
  command->planning.add_limits(*sub);
  sub->footer(
      "Examples:\n  mc2 explain --m 1024 --n 1024 --k 1024 --link 2.5Gbit,20us --html why.html\n"
      "  mc2 explain 3f9c2a --html why.html\n"
      "  mc2 explain plan.json --model model.json --profile profile.json");
  return {sub, [command] { return command->run(); }, true};
}

} // namespace mc2::cli
