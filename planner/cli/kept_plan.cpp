#include "kept_plan.hpp"

#include <filesystem>

#include "mc2/executor/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::cli {
namespace {

store::StoredPlan unkept(planner::Plan plan) {
  store::StoredPlan result;
  result.document = store::encode(plan);
  result.digest = store::digest(result.document);
  result.plan = std::move(plan);
  return result;
}

} // namespace

Result<store::StoredPlan> load_plan(const std::string& name, const char* option, const StoreOptions& store) {
  if (!std::filesystem::exists(name)) {
    auto layers = store.open();
    if (!layers) return layers.error();
    auto stored = layers.value().find_plan(name);
    if (stored) return stored;
    return Error{stored.error().code, option,
                 "'" + name + "' is no file, and as a digest: " + stored.error().message};
  }
  const auto content = read_file(name);
  if (!content) return content.error();
  auto plan = store::decode_plan(content.value());
  if (!plan) return document_error(name, plan.error());
  return unkept(std::move(plan).value());
}

Error with_advice(const Error& missing) {
  if (missing.code != ErrorCode::NotFound) return missing;
  return {missing.code, missing.field, missing.message + "; run mc2 tune with the same options first"};
}

Result<planner::CostModel> kept_model(const planner::OpSpec& op, const planner::Fingerprint& here,
                                      const store::Layers& layers) {
  auto model = layers.find_model(op, here);
  if (!model) return with_advice(model.error());
  return model;
}

Result<store::StoredPlan> find_plan_for(const planner::OpSpec& op, const planner::Fingerprint& here,
                                        const store::Layers& layers, const VariantOption& variant) {
  const store::PlanKey key{op, store::digest(here.canonical_text()), variant.purpose()};
  auto kept = layers.find_plan(key);
  const bool may_plan = !kept && (kept.error().code == ErrorCode::NotFound || kept.error().code == ErrorCode::Stale);
  if (!may_plan) return kept;
  const auto model = kept_model(op, here, layers);
  if (!model) return model.error();
  const auto offered = variant.restrict(model.value());
  if (!offered) return offered.error();
  auto plan = planner::make_plan(op, offered.value(), executor::default_options_on(here, op));
  if (!plan) return plan.error();
  return unkept(std::move(plan).value());
}

} // namespace mc2::cli
