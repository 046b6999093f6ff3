#include "own_plans.hpp"

#include <optional>
#include <utility>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/transfer.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::embed {
namespace {

using client::FoundPlan;
using client::PlanQuestion;
using planner::CostModel;
using planner::Error;
using planner::ErrorCode;
using planner::Result;

std::optional<CostModel> given_model(const OwnModels& models, const PlanQuestion& question) {
  for (const CostModel& model : models.given)
    if (model.fingerprint == question.machine && planner::has_same_block_costs(model.op, question.op)) return model;
  return std::nullopt;
}

Result<CostModel> find_model(const OwnModels& models, const PlanQuestion& question) {
  if (auto given = given_model(models, question)) return *std::move(given);
  if (models.kept == nullptr) return Error{ErrorCode::NotFound, "", "no model of " + question.op.text()};
  return models.kept->use(
      [&](const store::Layers& layers) { return layers.find_model(question.op, question.machine); });
}

Result<planner::Transfer> find_transfer(const OwnModels& models, const PlanQuestion& question) {
  std::vector<CostModel> near;
  for (const CostModel& model : models.given)
    if (model.fingerprint == question.machine) near.push_back(model);
  if (models.kept != nullptr) {
    auto kept = models.kept->use(
        [&](const store::Layers& layers) { return layers.list_models(question.op, question.machine); });
    near.insert(near.end(), std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end()));
  }
  return planner::transfer_from_nearest(near, question.op, question.machine);
}

planner::PlanOptions options_of(const PlanQuestion& question) {
  return question.options ? *question.options : planner::default_options_on(question.machine);
}

Result<FoundPlan> plan_from_model(const PlanQuestion& question, const CostModel& model) {
  auto plan = planner::make_plan(question.op, model, options_of(question));
  if (!plan) return plan.error();
  return as_found(std::move(plan).value(), "own planner, from the model of " + model.op.text());
}

Result<FoundPlan> plan_from_transfer(const PlanQuestion& question, const planner::Transfer& transfer) {
  auto plan = planner::make_plan(question.op, transfer.model, options_of(question));
  if (!plan) return plan.error();
  return as_found(planner::as_transferred(std::move(plan).value(), transfer), "own planner, " + transfer.reason);
}

Result<FoundPlan> make_own_plan(const OwnModels& models, const PlanQuestion& question) {
  const auto model = find_model(models, question);
  if (model) return plan_from_model(question, model.value());
  if (!models.may_transfer || model.error().code != ErrorCode::NotFound) return model.error();
  const auto transfer = find_transfer(models, question);
  if (transfer) return plan_from_transfer(question, transfer.value());
  if (transfer.error().code == ErrorCode::NotFound) return model.error();
  return Error{model.error().code, model.error().field,
               model.error().message + "; no other answers for it: " + transfer.error().text()};
}

} // namespace

FoundPlan as_found(planner::Plan plan, std::string source) {
  FoundPlan found;
  found.stored.document = store::encode(plan);
  found.stored.digest = store::digest(found.stored.document);
  found.stored.plan = std::move(plan);
  found.source = std::move(source);
  return found;
}

client::PlanSource own_plans(OwnModels models) {
  return {"own planner",
          [models = std::move(models)](const PlanQuestion& question) { return make_own_plan(models, question); }};
}

} // namespace mc2::embed
