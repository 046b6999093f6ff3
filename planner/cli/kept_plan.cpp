#include "kept_plan.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "options/document_file.hpp"
#include "pages/no_plan.hpp"

namespace mc2::cli {
namespace {

/// Errors: NotFound and the like with the field `option`.
Result<store::StoredPlan> find_by_digest(const std::string& name, const char* option, const StoreOptions& store,
                                         const ServerOptions& server) {
  const auto refused = [&](const Error& error) {
    return Error{error.code, option, in_quotes(name) + " is no file; as a digest of a kept plan: " + error.message};
  };
  if (const auto digest = store::read_digest(name); !digest) return refused(digest.error());
  MC2_ASSIGN(auto layers, store.open(look_up_use(server)));
  auto stored = layers.find_plan(name);
  if (stored) return stored;
  const Error missing = refused(stored.error());
  if (!server.is_given() || missing.code != ErrorCode::NotFound) return missing;
  MC2_ASSIGN(const auto client, server.open());
  auto served = client.find_plan(name);
  if (served) return served;
  return Error{served.error().code, option, missing.message + "; " + served.error().text()};
}

} // namespace

Result<store::StoredPlan> load_plan(const std::string& name, const char* option, const StoreOptions& store,
                                    const ServerOptions& server) {
  if (!file_exists(name)) return find_by_digest(name, option, store, server);
  MC2_ASSIGN(auto plan, read_document(name, store::decode_plan));
  return finder::unkept(std::move(plan));
}

Result<store::StoredPlan> load_predicted_plan(const std::string& name, const char* option, const StoreOptions& store,
                                              const ServerOptions& server) {
  MC2_ASSIGN(auto loaded, load_plan(name, option, store, server));
  MC2_TRY(check_predicted(loaded.plan, name, option));
  return loaded;
}

Result<void> check_predicted(const planner::Plan& plan, const std::string& name, const char* option) {
  if (plan.makespan.us > 0) return {};
  return Error{ErrorCode::InvalidSpec, option,
               name +
                   " predicts nothing: it was made without a model, or read back from an edited export; mc2 plan "
                   "--blocks predicts blocks"};
}

Result<void> require_made_here(const planner::Plan& plan, const planner::Fingerprint& here, const char* option) {
  if (plan.fingerprint == here) return {};
  const std::string asked = machine_option(here, plan.fingerprint);
  return Error{ErrorCode::Stale, option,
               "the plan was made for another machine (" + here.differences(plan.fingerprint).front() +
                   "); plan again here, " + (asked.starts_with("--") ? "add " + asked + ", " : "") +
                   "or add --accept-other-machine"};
}

StoreUse look_up_use(const ServerOptions& server) { return server.is_given() ? StoreUse::Keep : StoreUse::Read; }

Result<store::Layers> open_to_look_up(const StoreOptions& store, const ServerOptions& server, const planner::OpSpec& op,
                                      const planner::Fingerprint& here) {
  auto layers = store.open(look_up_use(server));
  if (layers || layers.error().code != ErrorCode::NotFound) return layers;
  if (store.is_named()) return layers.error();
  const auto path = store.writable_path();
  return no_plan(op, here, nullptr, path ? "" : "; " + path.error().message + ", for mc2 tune as well");
}

Error with_advice(const Error& missing, const finder::PlanQuestion& question, store::Layers& layers) {
  if (missing.code != ErrorCode::NotFound) return missing;
  finder::SharedLayers shared(layers);
  const finder::ModelPlaces places{.given = {}, .kept = finder::kept_in(shared)};
  const finder::PlanQuestion of_any_variant{
      .op = question.op, .machine = question.machine, .may_transfer = question.may_transfer};
  if (finder::find_model(places, of_any_variant)) return missing;
  return no_plan(question.op, question.machine, &layers.writable(), finder::why_not_transferred(places, question));
}

Result<finder::PlanQuestion> plan_question(const store::PlanRequest& request, const planner::Fingerprint& here,
                                           const VariantOption& variant, bool may_transfer) {
  MC2_ASSIGN(auto chosen, variant.chosen());
  return finder::PlanQuestion{.op = request.op,
                              .machine = here,
                              .options = request.options_with(planner::default_options_on(here)),
                              .variant = std::move(chosen),
                              .may_transfer = may_transfer};
}

Result<finder::FoundModel> find_kept_model(const finder::PlanQuestion& question, store::Layers& layers,
                                           const ServerOptions& server) {
  auto found = finder::find_model(layers, question);
  if (found || found.error().code != ErrorCode::NotFound) return found;
  if (!server.is_given()) return found;
  MC2_ASSIGN(const auto client, server.open());
  auto served = client.find_model(question.op, question.machine);
  if (served) return finder::find_model({.given = {std::move(served).value()}}, question);
  return Error{found.error().code, found.error().field, found.error().message + "; " + served.error().text()};
}

namespace {

void tell_where_from(const finder::FoundPlan& found, bool asked_service) {
  if (asked_service || found.passed_over_damage)
    note_source(found);
  else if (found.is_stopgap && found.stored.plan.is_transferred())
    std::cerr << "mc2: note: no model of this n and k; " << found.stored.plan.makespan.reason
              << "; intervals are wider, mc2 profile measures it\n";
}

/// What the best plan does better. It may have the same blocks: one block may overlap by itself, and any blocks may be
/// run one lane after the other.
std::string best_text(const store::Staleness& stale, const planner::Plan& plan) {
  if (stale.best_blocks == plan.cut.text() && stale.best_variant == plan.variant.text())
    return plan.overlaps() ? "without overlap" : "as one block that overlaps by itself";
  return "than " + stale.best_blocks + " with " + stale.best_variant;
}

void tell_staleness(const finder::FoundPlan& found) {
  if (const auto& stale = found.staleness)
    std::cerr << "mc2: note: the " << (found.origin == finder::Origin::Service ? "service's" : "kept")
              << " plan is stale: " << stale->why << "; it is predicted " << percent_text(stale->loss) << " slower "
              << best_text(*stale, found.stored.plan) << "; mc2 tune --fresh with the same options measures again\n";
}

/// The source, which also stores its last error in `error`, without the source's name.
finder::PlanSource remembering(finder::PlanSource source, std::optional<Error>& error) {
  return {source.name, [find = std::move(source.find), &error](const finder::PlanQuestion& question) {
            auto found = find(question);
            if (!found) error = found.error();
            return found;
          }};
}

} // namespace

void tell_later_run(store::Layers& layers, const planner::Plan& plan) {
  if (!plan.validation || !plan.overlaps() || !plan.counts.empty()) return;
  const auto measurements = layers.writable().list_measurements(plan.op, plan.fingerprint);
  if (!measurements) return;
  const auto is_of_plan = [&](const store::Measurement& one) { return planner::is_same_choice(one, plan); };
  const auto last = std::ranges::find_if(measurements.value().rbegin(), measurements.value().rend(), is_of_plan);
  if (last == measurements.value().rend() || last->run_count < plan.validation->pair_count) return;
  const double raced = plan.validation->benefit;
  constexpr double kAsSaid = 0.02;
  const bool holds = raced >= last->benefit_low && raced <= last->benefit_high;
  if (holds || std::abs(raced - last->benefit) <= kAsSaid) return;
  std::cerr << "mc2: note: the race of this plan measured a benefit of " << percent_text(raced)
            << ", and its last run here " << percent_text(last->benefit) << " ("
            << percent_interval_text(last->benefit_low, last->benefit_high) << ", " << last->run_count << " pairs)\n";
}

Result<finder::FoundPlan> find_plan_for(const finder::PlanQuestion& question, store::Layers& layers,
                                        const ServerOptions& server) {
  if (question.variant) MC2_TRY(server.refuse_beside("--variant", "a service cannot be asked for"));
  finder::SharedLayers shared(layers);
  std::vector<finder::PlanSource> sources;
  const bool asks_service = server.is_given() && !question.variant;
  if (asks_service) {
    MC2_ASSIGN(auto service, server.source(shared));
    sources.push_back(std::move(service));
  }
  sources.push_back(finder::kept_plans(finder::kept_in(shared)));
  std::optional<Error> planner_error;
  sources.push_back(remembering(finder::own_planner({.given = {}, .kept = finder::kept_in(shared)}), planner_error));
  auto found = finder::find_plan(sources, question);
  if (found) {
    tell_where_from(found.value(), asks_service);
    tell_staleness(found.value());
    return found;
  }
  const Error& failed = found.error();
  if (asks_service && failed.code == ErrorCode::NotFound)
    return Error{failed.code, failed.field, failed.message + "; " + how_to_make_one(question.op, question.machine)};
  // The planner's reason is enough where simply no plan is kept, but not where a kept plan cannot be read.
  const bool is_planners = !asks_service && planner_error && planner_error->code == failed.code;
  return with_advice(is_planners ? *planner_error : failed, question, layers);
}

} // namespace mc2::cli
