#pragma once

#include <string>

#include "context.hpp"
#include "mc2/store/store.hpp"
#include "server_options.hpp"
#include "variant_option.hpp"

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

/// What looking something up does with the store: what a service answers is kept.
[[nodiscard]] StoreUse look_up_use(const ServerOptions& server);

/// The store, to look this operator up for this machine. Errors: as StoreOptions::open; as Backend::supports where the
/// store is missing and nothing could ever be kept for it.
[[nodiscard]] Result<store::Layers> open_to_look_up(const StoreOptions& store, const ServerOptions& server,
                                                    const planner::OpSpec& op, const planner::Fingerprint& here);

/// That there is no kept model, and what to run first, or why this machine's backend can have none; other errors as
/// they are.
[[nodiscard]] Error with_advice(const Error& missing, const planner::OpSpec& op, const planner::Fingerprint& here);

/// The model kept for this operator and machine. Errors: as with_advice; as Layers::find_model.
[[nodiscard]] Result<planner::CostModel> kept_model(const planner::OpSpec& op, const planner::Fingerprint& here,
                                                    const store::Layers& layers);

/// As above, or else the service's. Errors: both reasons.
[[nodiscard]] Result<planner::CostModel> kept_model(const planner::OpSpec& op, const planner::Fingerprint& here,
                                                    const store::Layers& layers, const ServerOptions& server);

/// Where a plan is looked for beside the store.
struct PlanPlaces {
  VariantOption variant = {};
  ServerOptions server = {};
};

/// The service's plan for this operator and machine, if a server is given; else the tuned plan kept here (of the
/// variant), or one from the kept model, which has no date. With a server, standard error says which it was and why not
/// another. Errors: NotFound saying what to run first; as Backend::supports; as Layers::find_plan; InvalidSpec for a
/// variant beside a server.
[[nodiscard]] Result<store::StoredPlan> find_plan_for(const planner::OpSpec& op, const planner::Fingerprint& here,
                                                      store::Layers& layers, const PlanPlaces& places);

} // namespace mc2::cli
