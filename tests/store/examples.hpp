#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "mc2/planner/plan.hpp"
#include "mc2/planner/plan_ranges.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"

/// Small valid values with every optional part present.
namespace mc2::store::examples {

inline constexpr const char* kNow = "2025-01-02T03:04:05Z";

inline planner::OpSpec op(std::int64_t m = 1024) {
  return {planner::OpKind::MatmulAllReduce, m, 512, 256, planner::DType::F32, 2};
}

inline planner::OpSpec pooled_op() {
  planner::OpSpec op{planner::OpKind::EmbeddingAllToAll, 1024, 512, 20, planner::DType::F16, 2};
  op.tables = {.table_count = 8, .row_count = 100'000, .pooling = planner::Pooling::Mean};
  return op;
}

inline planner::Fingerprint fingerprint(const std::string& cpu_model = "Example CPU") {
  return {{{"backend", "host"}, {"cores", "2"}, {"cpu_model", cpu_model}, {"link", "shm; \"quoted\" \\ = é"}}};
}

inline planner::Variant variant() { return {"direct", {{"chunk_rows", "64"}}}; }

/// Ranges with every schedule and a rule of each kind, and with m that have no plan.
inline planner::PlanRanges plan_ranges() {
  using planner::Schedule;
  planner::PlanRanges ranges;
  ranges.op = op(4096);
  ranges.fingerprint = fingerprint();
  ranges.first_m = 1;
  ranges.ranges = {{65, 255, {variant(), Schedule::Serial}, 0, 0, planner::BenefitInterval{0, 0}},
                   {256, 2000, {variant(), Schedule::Pipelined, 512, 128, true}, 0.02, 0.25},
                   {2001,
                    4096,
                    {variant(), Schedule::LocalFirst, 896, 300, false},
                    0.25,
                    0.3,
                    planner::BenefitInterval{-0.05, 0.4},
                    planner::Provenance::Extrapolated,
                    0.0097}};
  ranges.gaps = {{1, 64, "each such m takes a model of the same m"}};
  ranges.planned_count = 4032;
  return ranges;
}

inline planner::Plan plan(std::int64_t m = 1024, const std::string& cpu_model = "Example CPU") {
  planner::Plan plan;
  plan.op = op(m);
  plan.fingerprint = fingerprint(cpu_model);
  plan.strategy = "search";
  plan.variant = variant();
  plan.cut = {{128, m - 128}};
  plan.makespan = {90.5, 88.25, 90.6 + 0.3, planner::Provenance::Interpolated, "inside the profiled range"};
  plan.serial_us = 120;
  plan.compute_us = 70;
  plan.communication_us = 50;
  plan.ideal_us = 70;
  plan.bound = planner::Bound::Compute;
  plan.slowdown = {1.1, 1.25};
  plan.timeline = {{{0, 10}, {10, 70}}, {{10, 20}, {70, 90.5}}, 90.5, 10};
  plan.runners_up = {{{{m}}, variant(), 120, "uncut: 32.6 % slower"}};
  plan.certificate = planner::Certificate{12, 7, 5, "every legal cut was simulated or excluded by its bound"};
  plan.recipe = {{"short block", 384, "rows", "the largest of a, b, c"}};
  plan.validation = planner::Validation{91, 121, 0.25, -0.01, 0.5, 40};
  plan.validation->spread = planner::MeasuredSpread{90, 92, 119, 124, 1.25};
  plan.validation->measured_at = "2026-01-02T03:04:05Z";
  plan.benefit_interval = planner::BenefitInterval{-0.02, 0.4};
  plan.reason = "overlap hides the collective";
  return plan;
}

inline planner::CostCurve affine_curve(planner::CurveAxis axis) {
  planner::CostCurve curve;
  curve.axis = axis;
  curve.shape = planner::AffineCurve{12.5, 0.025};
  curve.valid_min_x = 64;
  curve.valid_max_x = 4096;
  curve.relative_interval = 0.05;
  curve.quality = {9, 0.01, 0.03, 0.012, "affine explains the samples"};
  return curve;
}

/// The published all-reduce curve: -0.9698202 x^2 + 27.0622573 x + 14.769 below 8 MiB, affine from there on.
inline planner::CostCurve piecewise_curve() {
  planner::CostCurve curve = affine_curve(planner::CurveAxis::Bytes);
  curve.shape = planner::PiecewiseCurve{8388608, 1048576, -0.9698202, 27.0622573, 14.769, 13.58491263, 61.508333};
  curve.valid_max_x = 67108864;
  curve.is_analytic = true;
  return curve;
}

/// The production all-reduce curve: constant, quadratic, affine; it drops by 8.6 % at its first knot.
inline planner::CostCurve segments_curve(planner::CurveAxis axis = planner::CurveAxis::Bytes) {
  planner::CostCurve curve = affine_curve(axis);
  curve.shape = planner::SegmentsCurve{
      1048576, {65536, 8388608}, {{0, 0, 18}, {-0.9698202, 27.0622573, 14.769}, {0, 13.58491263, 61.508333}}};
  return curve;
}

inline planner::CostCurve staircase_curve(planner::CurveAxis axis = planner::CurveAxis::Rows) {
  planner::CostCurve curve = affine_curve(axis);
  curve.shape = planner::StaircaseCurve{5.5, 0.0125, 20.25, 264, "132 of 132 units, tiles of 128 x 128, n = 8192"};
  return curve;
}

inline planner::CostCurve interpolated_curve(planner::CurveAxis axis = planner::CurveAxis::Bytes) {
  planner::CostCurve curve = affine_curve(axis);
  curve.shape = planner::InterpolatedCurve{{{64.5, 10.5}, {512.5, 12.25}, {4096.5, 80.75}}};
  return curve;
}

inline planner::CostModel model(std::int64_t m = 1024, const std::string& cpu_model = "Example CPU") {
  planner::CostModel model;
  model.op = op(m);
  model.fingerprint = fingerprint(cpu_model);
  model.variants = {{variant(), {affine_curve(planner::CurveAxis::Rows), 1.5, 1.1}, {piecewise_curve(), 2.5, 1.25}}};
  model.source = "profile on this machine";
  return model;
}

/// A model with a curve of every family.
inline planner::CostModel varied_model() {
  planner::CostModel varied = model();
  varied.variants.push_back({{"ring", {}}, {staircase_curve(), 0, 1}, {segments_curve(), 0, 1}});
  varied.variants.push_back(
      {{"push", {}}, {segments_curve(planner::CurveAxis::Rows), 0, 1}, {interpolated_curve(), 0, 1}});
  return varied;
}

/// A sample of op(), or of another operator on two ranks that has at least as many rows or columns.
inline planner::Sample sample(int round = 0, const planner::OpSpec& of = op()) {
  planner::Sample sample;
  sample.component = planner::Component::Collective;
  sample.context = planner::Context::CoRun;
  sample.variant = "direct";
  sample.block_rows = 256;
  sample.block_count = 4;
  sample.message_bytes = 256 * planner::traits_of(of.kind).message_bytes_per_unit(of); // 524288 for op()
  sample.time = std::chrono::nanoseconds(123456789);
  sample.slowest_rank = 1;
  sample.round = round;
  sample.is_outlier = round % 2 == 1;
  return sample;
}

inline planner::Profile profile_of(const planner::OpSpec& op) {
  return {op, fingerprint(), {sample(0, op), sample(1, op)}};
}
inline planner::Profile profile(std::int64_t m = 1024) { return profile_of(op(m)); }

inline PlanRequest request() {
  PlanRequest request{op(), {}};
  request.options.strategy = "formula";
  request.options.formula_short_block = planner::ShortBlockRule::Smallest;
  return request;
}

inline Measurement measurement(std::int64_t m = 1024) {
  return {{{91, 121, 70, 50, 0, 0, 40}, variant(), {{128, m - 128}}}, op(m), 0.25, 0.2, 0.3, 90.5};
}

inline PlanKey key_of(const planner::Plan& plan, const std::string& purpose = "tuned") {
  return {plan.op, digest(plan.fingerprint), purpose};
}

} // namespace mc2::store::examples
