#include "commands/push.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "commands/commands.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/store/codec.hpp"
#include "options/server_options.hpp"
#include "pages/no_plan.hpp"
#include "pages/report.hpp"

namespace mc2::cli {
namespace {

constexpr std::size_t kNamedDigits = 12; ///< digits of a digest that messages show

/// Turns NotFound into nothing. Errors: all others.
template <typename T>
Result<std::optional<T>> if_kept(Result<T> found) {
  if (found) return std::optional<T>(std::move(found).value());
  if (found.error().code == ErrorCode::NotFound) return std::optional<T>();
  return found.error();
}

/// The model of the operator itself, including its m. Errors: as Store::find_model.
Result<std::optional<planner::CostModel>> own_model(const store::Store& store, const planner::OpSpec& op,
                                                    const planner::Fingerprint& machine) {
  auto model = if_kept(store.find_model(op, machine));
  if (model && model.value() && model.value()->op != op) return std::optional<planner::CostModel>();
  return model;
}

Result<void> push_model(const client::Client& client, const store::Store& store, const planner::CostModel& model,
                        Pushed& pushed) {
  const std::string digest = store::digest(store::encode(model));
  const auto known = client.find_model(digest);
  if (!known && known.error().code != ErrorCode::NotFound) return known.error();
  if (!known) {
    MC2_ASSIGN(const auto profile, if_kept(store.find_profile(model.op, model.fingerprint)));
    if (profile) {
      MC2_ASSIGN(pushed.sample_count, client.add_samples(*profile));
    }
    MC2_TRY(client.put_model(model));
  }
  pushed.model_digest = digest;
  return {};
}

/// Sends the plan, and before it the races, one of which it has won.
Result<void> push_plan(const client::Client& client, const store::Store& store, const store::StoredPlan& plan,
                       Pushed& pushed) {
  pushed.plan_digest = plan.digest;
  const auto known = client.find_plan(plan.digest);
  if (known) return {};
  if (known.error().code != ErrorCode::NotFound) return known.error();
  MC2_ASSIGN(const auto races, store.list_measurements(plan.plan.op, plan.plan.fingerprint));
  for (const store::Measurement& race : races) {
    MC2_ASSIGN(const auto added, client.add_measurement({plan.plan.fingerprint, race}));
    pushed.race_count += added ? 1 : 0;
  }
  MC2_TRY(client.put_plan(plan.plan, plan.key.purpose));
  return {};
}

struct PushCommand {
  OpOptions op;
  MachineOptions machine;
  StoreOptions store;
  const ServerOptions* server = nullptr;
  bool is_json = false;

  [[nodiscard]] Result<ExitCode> run() const {
    MC2_ASSIGN(const auto spec, op.spec());
    if (!server->is_given())
      return Error{ErrorCode::InvalidSpec, "--server",
                   "is missing; give e.g. --server http://plans:8471, or set MC2_SERVER"};
    MC2_ASSIGN(const auto here, machine.fingerprint(spec.world_size));
    MC2_ASSIGN(const auto client, server->open());
    MC2_ASSIGN(auto layers, store.open(StoreUse::Read));
    const auto pushed = push(client, layers.writable(), {.op = spec, .machine = here});
    if (!pushed && pushed.error().code == ErrorCode::NotFound)
      return Error{pushed.error().code, pushed.error().field,
                   pushed.error().message + "; " + how_to_make_one(spec, here)};
    if (!pushed) return pushed.error();
    if (is_json)
      print_report("mc2.push/1", pushed.value().report(client.url()));
    else
      std::cout << pushed.value().text(client.url()) << "\n";
    return ExitCode::Success;
  }
};

} // namespace

std::string Pushed::text(const std::string& url) const {
  std::string what = std::to_string(sample_count) + " samples, " + std::to_string(race_count) + " races";
  if (!model_digest.empty()) what += ", model " + model_digest.substr(0, kNamedDigits);
  if (!plan_digest.empty()) what += ", plan " + plan_digest.substr(0, kNamedDigits);
  return "pushed " + what + " to " + url;
}

nlohmann::json Pushed::report(const std::string& url) const {
  nlohmann::json report{{"race_count", race_count}, {"sample_count", sample_count}, {"server", url}};
  if (!model_digest.empty()) report["model_digest"] = model_digest;
  if (!plan_digest.empty()) report["plan_digest"] = plan_digest;
  return report;
}

Result<Pushed> push(const client::Client& client, const store::Store& store, const finder::PlanQuestion& question) {
  const planner::OpSpec& op = question.op;
  const planner::Fingerprint& machine = question.machine;
  MC2_ASSIGN(const auto model, own_model(store, op, machine));
  const store::PlanKey key{op, store::digest(machine), finder::tuned_purpose(question)};
  MC2_ASSIGN(const auto plan, if_kept(store.find_plan(key)));
  if (!model && !plan)
    return Error{ErrorCode::NotFound, store.path().string(),
                 "has neither model nor tuned plan for " + op.text() + " on this machine"};
  Pushed pushed;
  if (model) MC2_TRY(push_model(client, store, *model, pushed));
  if (plan) MC2_TRY(push_plan(client, store, *plan, pushed));
  return pushed;
}

Command add_push(CLI::App& app, ServerOptions& server) {
  auto command = std::make_shared<PushCommand>();
  command->server = &server;
  auto* sub = app.add_subcommand("push", "send what was tuned here to a plan service");
  command->op.add_to(*sub, true);
  command->machine.add_names_to(*sub);
  add_all(*sub, command->store, server);
  add_json(*sub, command->is_json, "what was sent");
  sub->footer("Example:\n  mc2 push --m 1024 --n 1024 --k 1024 --server http://plans:8471");
  return {sub, [command] { return command->run(); }, true};
}

} // namespace mc2::cli
