#pragma once

#include <string>

#include "context.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/store/store.hpp"
#include "options/server_options.hpp"
#include "options/variant_option.hpp"

namespace mc2::cli {

/// Reads a plan document, or finds the kept plan with that digest or unique prefix, here or else at the service. A plan
/// from a file has no key and no date. Errors: Malformed naming the file; NotFound and the like under `option`; as
/// client::Client.
[[nodiscard]] Result<store::StoredPlan> load_plan(const std::string& name, const char* option,
                                                  const StoreOptions& store, const ServerOptions& server = {});

/// As load_plan. Errors: InvalidSpec under `option` for a plan without predictions.
[[nodiscard]] Result<store::StoredPlan> load_predicted_plan(const std::string& name, const char* option,
                                                            const StoreOptions& store,
                                                            const ServerOptions& server = {});

/// Errors: InvalidSpec for a plan that was raced without a model. @param name  of the plan, for people
[[nodiscard]] Result<void> check_predicted(const planner::Plan& plan, const std::string& name, const char* option);

/// What looking something up does with the store: what a service answers is kept.
[[nodiscard]] StoreUse look_up_use(const ServerOptions& server);

/// The store, to look this operator up for this machine. Errors: as StoreOptions::open.
[[nodiscard]] Result<store::Layers> open_to_look_up(const StoreOptions& store, const ServerOptions& server,
                                                    const planner::OpSpec& op, const planner::Fingerprint& here);

/// Why what is kept does not answer: no_plan() where no model of any variant does; other errors as they are.
[[nodiscard]] Error with_advice(const Error& missing, const finder::PlanQuestion& question, store::Layers& layers);

/// What is asked of this operator on this machine, of the variant that is named: with options as the machine has them
/// where the request does not say. Errors: as VariantOption::chosen.
[[nodiscard]] Result<finder::PlanQuestion> plan_question(const store::PlanRequest& request,
                                                         const planner::Fingerprint& here, const VariantOption& variant,
                                                         bool may_transfer);

/// finder::find_model() in these layers, else the service's, if there is one. Errors: as finder::find_model, with both
/// reasons.
[[nodiscard]] Result<finder::FoundModel> find_kept_model(const finder::PlanQuestion& question, store::Layers& layers,
                                                         const ServerOptions& server = {});

/// finder::find_plan() among the service, if a server is given, the plans and the models of these layers. Standard
/// error says where the plan is from where that matters: with a server, from another n and k, or where something
/// damaged was passed over. Errors: as with_advice; NotFound with the reasons of the service and of all places, where
/// one was asked; InvalidSpec for a variant beside a server that was named.
[[nodiscard]] Result<finder::FoundPlan> find_plan_for(const finder::PlanQuestion& question, store::Layers& layers,
                                                      const ServerOptions& server);

} // namespace mc2::cli
