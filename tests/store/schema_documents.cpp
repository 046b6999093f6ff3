#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "codec_parts.hpp"
#include "examples.hpp"
#include "mc2/planner/explanation.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "support/topologies.hpp"

/// Writes documents for tests/schemas/validate_documents.py: schema_documents DIRECTORY.
namespace {

namespace fs = std::filesystem;
using namespace mc2::store;
using namespace mc2;

void write(const fs::path& path, std::string_view document) { std::ofstream(path) << document; }

/// A plan that the planner makes, as it may use parts that no example has.
planner::Plan made_plan(const std::string& strategy) {
  planner::PlanOptions options;
  options.strategy = strategy;
  // The recipe's lower limit a k n >= 4 * 1024^3 asks for at least 32768 rows at k = 256, n = 512.
  const planner::CostModel model = examples::model(131072);
  return planner::make_plan(model.op, model, options).value();
}

/// A model of a kind with a local part, with every optional field.
planner::CostModel all_gather_model() {
  planner::CostModel model = examples::model(65536);
  model.op.kind = planner::OpKind::AllGatherMatmul;
  model.variants.front().local_compute = examples::affine_curve(planner::CurveAxis::Rows);
  model.variants.front().run_us = 9.5;
  model.variants.front().communication.start_us = 31.5;
  model.variants.front().communication.start_interval = 0.4;
  model.variants.front().open_steps = {{0.02, -0.01, 3, 0}};
  model.anchored_interval = 0.02;
  model.serial = {model.variants.front().variant, 91.5};
  return model;
}

planner::Plan all_gather_plan() {
  planner::PlanOptions options;
  options.strategy = "free";
  const planner::CostModel model = all_gather_model();
  return planner::make_plan(model.op, model, options).value();
}

/// An explanation of a plan: with the model and a measured run if it is complete, else without both.
planner::Explanation explanation(bool is_complete) {
  const planner::CostModel model = examples::model(131072);
  const planner::Plan plan = made_plan("search");
  planner::Explanation result = planner::explain(plan, is_complete ? &model : nullptr, {}).value();
  if (is_complete) result.measured = {plan.timeline, result.use};
  return result;
}

planner::Plan bare_plan() {
  planner::Plan plan = examples::plan();
  plan.certificate.reset();
  plan.validation.reset();
  plan.benefit_interval.reset();
  plan.runners_up.clear();
  plan.recipe.clear();
  plan.fingerprint.fields.clear();
  return plan;
}

/// A model of 16 rows, which are cut along n, with everything that an operator may have.
planner::CostModel column_model() {
  planner::CostModel model = examples::model(16);
  model.op.n = 8192;
  model.op.epilogue = {.has_bias = true, .has_residual = true, .norm = planner::Norm::Rms};
  model.variants.front().compute.curve.axis = planner::CurveAxis::Columns;
  return model;
}

planner::Profile column_profile() { return examples::profile_of(column_model().op); }

/// One profile in which every enumerator of op, component and context occurs.
planner::Profile varied_profile() {
  planner::OpSpec op = examples::op();
  op.dtype = planner::DType::Bf16;
  planner::Profile profile = examples::profile_of(op);
  profile.samples[0].component = planner::Component::Matmul;
  profile.samples[0].context = planner::Context::Alone;
  profile.samples[0].message_bytes = 0;
  return profile;
}

std::string exported(const fs::path& directory) {
  fs::remove(directory / "scratch.db");
  Store store = Store::open(directory / "scratch.db", OpenMode::ReadWrite).value();
  const auto profile = examples::profile();
  if (!store.put_plan(examples::plan(), "tuned", examples::kNow) ||
      !store.put_model(examples::model(), examples::kNow) ||
      !store.append_samples(profile.op, profile.fingerprint, profile.samples, examples::kNow) ||
      !store.add_measurement(profile.fingerprint, examples::measurement(), examples::kNow))
    return {};
  return store.export_json().value();
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: schema_documents DIRECTORY\n", stderr), 2;
  const fs::path directory = argv[1];
  fs::create_directories(directory);
  write(directory / "plan_example.json", encode(examples::plan()));
  write(directory / "plan_bare.json", pretty(encode(bare_plan())));
  write(directory / "plan_search.json", encode(made_plan("search")));
  write(directory / "plan_all_gather.json", encode(all_gather_plan()));
  write(directory / "cost_model_all_gather.json", encode(all_gather_model()));
  write(directory / "cost_model_columns.json", encode(column_model()));
  write(directory / "plan_columns.json", encode(planner::make_plan(column_model().op, column_model(), {}).value()));
  write(directory / "profile_columns.json", encode(column_profile()));
  write(directory / "plan_formula.json", encode(made_plan("formula")));
  write(directory / "cost_model.json", encode(examples::model()));
  write(directory / "cost_model_varied.json", encode(examples::varied_model()));
  write(directory / "profile.json", encode(examples::profile()));
  write(directory / "profile_varied.json", encode(varied_profile()));
  write(directory / "request.json", encode(examples::request()));
  write(directory / "request_tables.json", encode(PlanRequest{examples::pooled_op(), {}}));
  planner::OpSpec experts = examples::op();
  experts.kind = planner::OpKind::AllToAllMatmul;
  experts.m = experts.world_size * 96;
  experts.experts_per_rank = 3;
  write(directory / "request_experts.json", encode(PlanRequest{experts, {}}));
  write(directory / "request_default.json", encode(PlanRequest{examples::op(), {}}));
  write(directory / "fingerprint.json", encode(examples::fingerprint()));
  write(directory / "plan_ranges.json", encode(examples::plan_ranges()));
  planner::Topology topology = planner::examples::topology();
  topology.uncertainty = {.launch_us = 0.5, .inter_alpha_us = 1};
  write(directory / "topology.json", encode(topology));
  write(directory / "history.json",
        encode(std::vector{HistoryPoint{"2026-01-01T00:00:00Z", {{"gain", 0.25}, {"questions", 7}}}}));
  Change kept{.revision = 7,
              .document = "plan",
              .is_removal = false,
              .op = examples::op(),
              .fingerprint_digest = digest(examples::fingerprint()),
              .purpose = "tuned",
              .digest = digest("a plan")};
  Change removed = kept;
  removed.document = "samples";
  removed.is_removal = true;
  removed.purpose.clear();
  write(directory / "changes.json", encode(Changes{{kept, removed}, 8}));
  kept.row = RawDocument{3, 12, examples::kNow, "a plan", digest("its checksum")};
  removed.row = RawDocument{4, 7, {}, {}, {}};
  write(directory / "changes_rows.json",
        encode(Changes{{kept, removed}, 8, {{1, kept.fingerprint_digest, "a machine", digest("its checksum")}}}));
  write(directory / "measurement.json", encode(MeasurementRecord{examples::fingerprint(), examples::measurement()}));
  Measurement predicted = examples::measurement();
  predicted.predicted_compute_us = 72;
  predicted.predicted_communication_us = 49;
  predicted.predicted_serial_us = 120;
  predicted.relative_error = 0.01;
  predicted.compute_blocks_us = predicted.communication_blocks_us = 0.8 * predicted.fused_us;
  write(directory / "measurement_predicted.json", encode(MeasurementRecord{examples::fingerprint(), predicted}));
  write(directory / "explanation.json", encode(explanation(true)));
  write(directory / "explanation_bare.json", pretty(encode(explanation(false))));
  write(directory / "store.json", exported(directory));
  return 0;
}
