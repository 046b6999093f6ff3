#include "kept_plan.hpp"

#include <filesystem>
#include <utility>
#include <vector>

#include "document_file.hpp"
#include "mc2/client/plan_source.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::cli {
namespace {

/// Errors: NotFound and the like under `option`.
Result<store::StoredPlan> find_by_digest(const std::string& name, const char* option, const StoreOptions& store,
                                         const ServerOptions& server) {
  const auto refused = [&](const Error& error) {
    return Error{error.code, option, "'" + name + "' is no file, and as a digest: " + error.message};
  };
  if (const auto digest = store::read_digest(name); !digest) return refused(digest.error());
  auto layers = store.open(look_up_use(server));
  if (!layers) return layers.error();
  auto stored = layers.value().find_plan(name);
  if (stored) return stored;
  const Error missing = refused(stored.error());
  if (!server.is_given() || missing.code != ErrorCode::NotFound) return missing;
  const auto client = server.open();
  if (!client) return client.error();
  auto served = client.value().find_plan(name);
  if (served) return served;
  return Error{served.error().code, option, missing.message + "; " + served.error().text()};
}

/// That the machine's backend can run, and so tune, the operator. Errors: as Backend::supports.
Result<void> check_supported(const planner::OpSpec& op, const planner::Fingerprint& here) {
  const auto backend = executor::find_backend(here.fields.at("backend"));
  return backend ? backend.value()->supports(op) : Result<void>();
}

} // namespace

Result<store::StoredPlan> load_plan(const std::string& name, const char* option, const StoreOptions& store,
                                    const ServerOptions& server) {
  if (!std::filesystem::exists(name)) return find_by_digest(name, option, store, server);
  auto plan = read_document(name, store::decode_plan);
  if (!plan) return plan.error();
  return client::unkept(std::move(plan).value());
}

Result<store::StoredPlan> load_predicted_plan(const std::string& name, const char* option, const StoreOptions& store,
                                              const ServerOptions& server) {
  auto loaded = load_plan(name, option, store, server);
  if (!loaded || loaded.value().plan.makespan.us > 0) return loaded;
  return Error{
      ErrorCode::InvalidSpec, option,
      name + " predicts nothing: its blocks were given where no model was kept; name a plan of mc2 plan or mc2 tune"};
}

StoreUse look_up_use(const ServerOptions& server) { return server.is_given() ? StoreUse::Keep : StoreUse::Read; }

Result<store::Layers> open_to_look_up(const StoreOptions& store, const ServerOptions& server, const planner::OpSpec& op,
                                      const planner::Fingerprint& here) {
  auto layers = store.open(look_up_use(server));
  if (layers || layers.error().code != ErrorCode::NotFound) return layers;
  if (auto supported = check_supported(op, here); !supported) return supported.error();
  return layers;
}

Error with_advice(const Error& missing, const planner::OpSpec& op, const planner::Fingerprint& here) {
  if (missing.code != ErrorCode::NotFound) return missing;
  if (auto supported = check_supported(op, here); !supported) return supported.error();
  return {missing.code, missing.field, missing.message + "; run mc2 tune with the same options first"};
}

Result<planner::CostModel> kept_model(const planner::OpSpec& op, const planner::Fingerprint& here,
                                      const store::Layers& layers) {
  auto model = layers.find_model(op, here);
  if (!model) return with_advice(model.error(), op, here);
  return model;
}

Result<planner::CostModel> kept_model(const planner::OpSpec& op, const planner::Fingerprint& here,
                                      const store::Layers& layers, const ServerOptions& server) {
  auto model = layers.find_model(op, here);
  if (model || model.error().code != ErrorCode::NotFound) return model;
  if (!server.is_given()) return with_advice(model.error(), op, here);
  const auto client = server.open();
  if (!client) return client.error();
  auto served = client.value().find_model(op, here);
  if (served) return served;
  return with_advice({served.error().code, model.error().field, model.error().message + "; " + served.error().text()},
                     op, here);
}

namespace {

client::Planning planning_with(client::SharedLayers& layers, const VariantOption& variant) {
  return {[&layers, &variant](const client::PlanQuestion& question) -> Result<planner::CostModel> {
            const auto model = layers.use(
                [&](const store::Layers& stores) { return kept_model(question.op, question.machine, stores); });
            if (!model) return model;
            return variant.restrict(model.value());
          },
          [](const client::PlanQuestion& question) { return planner::default_options_on(question.machine); }};
}

} // namespace

Result<store::StoredPlan> find_plan_for(const planner::OpSpec& op, const planner::Fingerprint& here,
                                        store::Layers& layers, const PlanPlaces& places) {
  const auto& [variant, server] = places;
  if (variant.is_given())
    if (auto alone = server.refuse_beside("--variant", "no service chooses by"); !alone) return alone.error();
  client::SharedLayers shared(layers);
  std::vector<client::PlanSource> sources;
  const bool asks_service = server.is_given() && !variant.is_given();
  if (asks_service) {
    auto service = server.source(shared);
    if (!service) return service.error();
    sources.push_back(std::move(service).value());
  }
  sources.push_back(client::kept_plans(shared, variant.purpose()));
  sources.push_back(client::own_planner(planning_with(shared, variant)));
  auto found = client::find_plan(sources, {.op = op, .machine = here});
  if (!found && found.error().code == ErrorCode::Unsupported) // what other places lack does not matter then
    if (auto supported = check_supported(op, here); !supported) return supported.error();
  if (!found) return found.error();
  if (asks_service) note_source(found.value());
  return std::move(found).value().stored;
}

} // namespace mc2::cli
