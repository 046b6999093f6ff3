#pragma once

#include <string>

#include "context.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/store/store.hpp"
#include "options/server_options.hpp"
#include "options/variant_option.hpp"

namespace mc2::cli {

/// Reads a plan from a document, or finds the kept plan with that digest or unique prefix in the store, else at the
/// service. A plan from a file has no key and no date. Errors: Malformed naming the file; NotFound and the like with
/// the field `option`; as client::Client.
[[nodiscard]] Result<store::StoredPlan> load_plan(const std::string& name, const char* option,
                                                  const StoreOptions& store, const ServerOptions& server = {});

/// As load_plan, for a plan with predictions. Errors: as load_plan; InvalidSpec with the field `option` for a plan
/// without them.
[[nodiscard]] Result<store::StoredPlan> load_predicted_plan(const std::string& name, const char* option,
                                                            const StoreOptions& store,
                                                            const ServerOptions& server = {});

/// Checks that a plan has predictions. Errors: InvalidSpec with the field `option` for a plan that was raced without a
/// model.
/// @param name  of the plan, for the message
[[nodiscard]] Result<void> check_predicted(const planner::Plan& plan, const std::string& name, const char* option);

/// Checks that a plan was made for this machine. Errors: Stale with the field `option`, which says how to ask for the
/// plan's machine.
[[nodiscard]] Result<void> require_made_here(const planner::Plan& plan, const planner::Fingerprint& here,
                                             const char* option);

/// How to open the store to look something up: with a service, the service's answers are kept in it.
[[nodiscard]] StoreUse look_up_use(const ServerOptions& server);

/// Opens the store to look an operator up. Errors: as StoreOptions::open; no_plan() where there is no store yet.
[[nodiscard]] Result<store::Layers> open_to_look_up(const StoreOptions& store, const ServerOptions& server,
                                                    const planner::OpSpec& op, const planner::Fingerprint& here);

/// Adds advice to an error of the finder: NotFound becomes no_plan(), unless a model of another variant would answer.
/// Other errors stay as they are.
[[nodiscard]] Error with_advice(const Error& missing, const finder::PlanQuestion& question, store::Layers& layers);

/// The question that a request asks on this machine, for the chosen variant if there is one. Options that the request
/// leaves open are the machine's. Errors: as VariantOption::chosen.
[[nodiscard]] Result<finder::PlanQuestion> plan_question(const store::PlanRequest& request,
                                                         const planner::Fingerprint& here, const VariantOption& variant,
                                                         bool may_transfer);

/// Finds a model in the layers by finder::find_model(), else at the service if a server is given. Errors: as
/// finder::find_model, with the service's reason added.
[[nodiscard]] Result<finder::FoundModel> find_kept_model(const finder::PlanQuestion& question, store::Layers& layers,
                                                         const ServerOptions& server = {});

/// Tells on standard error where the last run of a raced plan, of no fewer pairs than its race, measured a benefit
/// whose interval does not hold the race's and is more than 2 points off.
void tell_later_run(store::Layers& layers, const planner::Plan& plan);

/// Finds a plan by finder::find_plan(): at the service if a server is given, then among the plans and models of the
/// layers. Tells on standard error where the plan is from if a service was asked, a model of another n and k answered
/// or a damaged document was passed over, and also that a plan is stale. Errors: as with_advice; NotFound with the
/// reasons of all places if a service was asked; InvalidSpec for a variant together with --server.
[[nodiscard]] Result<finder::FoundPlan> find_plan_for(const finder::PlanQuestion& question, store::Layers& layers,
                                                      const ServerOptions& server);

} // namespace mc2::cli
