#include "pages/explain_evidence.hpp"

#include <algorithm>
#include <set>
#include "mc2/finder/models.hpp"

namespace mc2::cli {
namespace {

using planner::Component;

std::vector<double> block_sizes(const planner::Plan& plan, double x_per_row) {
  const std::set<std::int64_t> rows(plan.cut.block_rows.begin(), plan.cut.block_rows.end());
  std::vector<double> sizes;
  sizes.reserve(rows.size());
  for (const auto length : rows) sizes.push_back(static_cast<double>(length) * x_per_row);
  return sizes;
}

void note_missing_model(Evidence& evidence, const std::string& why) {
  evidence.notes.push_back("the cost model is not in the store (" + why + "); --model FILE supplies it");
}

void note_missing_samples(Evidence& evidence, const std::string& why) {
  evidence.notes.push_back("the samples are not in the store (" + why + "); --profile FILE supplies them");
}

} // namespace

Evidence evidence_of(const store::StoredPlan& stored) {
  Evidence evidence;
  evidence.digest = stored.digest;
  evidence.kept_at = stored.created_at;
  return evidence;
}

std::optional<planner::CostModel> model_of_plan(const Evidence& evidence) {
  return evidence.model && evidence.now ? evidence.now : evidence.model;
}

void note_missing(Evidence& evidence, const std::string& why) {
  if (!evidence.model) note_missing_model(evidence, why);
  if (!evidence.profile) note_missing_samples(evidence, why);
}

void look_up(Evidence& evidence, const planner::Plan& plan, store::Layers& layers) {
  if (!evidence.model) {
    // A transferred plan is explained by the model that it was transferred from.
    auto model =
        finder::find_model(layers, {.op = plan.op, .machine = plan.fingerprint, .may_transfer = plan.is_transferred()});
    if (model) {
      if (!plan.validation) // a raced plan was made for the model's speed
        evidence.now = finder::as_it_is_now(model.value(), plan.op);
      evidence.model = std::move(model.value().model);
    } else
      note_missing_model(evidence, model.error().message);
  }
  if (!evidence.profile) {
    const bool is_ours = evidence.model && has_same_block_costs(evidence.model->op, plan.op);
    auto profile = layers.writable().find_profile(is_ours ? evidence.model->op : plan.op, plan.fingerprint);
    if (profile)
      evidence.profile = std::move(profile).value();
    else
      note_missing_samples(evidence, profile.error().message);
  }
  auto measurements = layers.writable().list_measurements(plan.op, plan.fingerprint);
  if (!measurements || !plan.overlaps()) return; // kept races overlapped, even uncut ones
  if (!plan.counts.empty()) return;              // kept races are of equal counts
  for (auto& measurement : measurements.value())
    if (planner::is_same_choice(measurement, plan)) evidence.measurement = measurement;
}

void drop_foreign(Evidence& evidence, const planner::Plan& plan) {
  const auto drop = [&](const char* what, auto& shown) {
    if (!shown || has_same_block_costs(shown->op, plan.op)) return;
    evidence.notes.push_back(what + shown->op.text() + ", another operator: not shown");
    shown.reset();
  };
  drop("the model is of ", evidence.model);
  drop("the samples are of ", evidence.profile);
  if (evidence.model && evidence.model->cost_of(plan.variant) == nullptr)
    evidence.notes.push_back("the model does not know the plan's variant, " + plan.variant.text() +
                             ": no curves are shown");
}

std::vector<CurveEvidence> curve_evidence(const planner::Plan& plan, const Evidence& evidence) {
  if (!evidence.model) return {};
  const planner::VariantCost* cost = evidence.model->cost_of(plan.variant);
  if (cost == nullptr) return {};
  const auto bytes = static_cast<double>(planner::traits_of(plan.op.kind).message_bytes_per_unit(plan.op));
  std::vector<CurveEvidence> result{{planner::Lane::Compute, cost->compute, {}, block_sizes(plan, 1)},
                                    {planner::Lane::Communication, cost->communication, {}, block_sizes(plan, bytes)}};
  if (!evidence.profile) return result;
  result[0].samples = profiler::curve_samples(*evidence.profile, Component::Matmul, plan.variant.text());
  result[1].samples = profiler::curve_samples(*evidence.profile, Component::Collective, plan.variant.text());
  return result;
}

} // namespace mc2::cli
