#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "examples.hpp"

/// Random values that are legal but otherwise as odd as the types allow.
namespace mc2::store::generators {

/// Any finite double by its bits: negative zero, subnormal and extreme values included.
inline double any_double() {
  const double value = std::bit_cast<double>(*rc::gen::arbitrary<std::uint64_t>());
  return std::isfinite(value) ? value : -0.0;
}

inline double positive_double() { return std::fabs(any_double()); }

/// A legal time with any bits.
inline double any_time() { return std::fmin(positive_double(), planner::kMaxTimeUs); }

/// Valid UTF-8 with everything that JSON escapes and a document may hold.
inline std::string any_text() {
  const auto pieces = *rc::gen::container<std::vector<std::string>>(
      rc::gen::element<std::string>("a", "Z", " ", "\"", "\\", "/", "é", "日", "\U0001F680", "=", ";"));
  std::string text;
  for (const auto& piece : pieces) text += piece;
  return text;
}

inline std::map<std::string, std::string> any_texts() {
  std::map<std::string, std::string> result;
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) result.emplace(any_text(), any_text());
  return result;
}

inline int any_count() { return *rc::gen::inRange(0, std::numeric_limits<int>::max()); }

/// Turns an operator into one of embedding tables.
inline void make_pooled(planner::OpSpec& op) {
  op.kind = planner::OpKind::EmbeddingAllToAll;
  op.tables = {.table_count = *rc::gen::inRange<std::int64_t>(1, 1000),
               .row_count = *rc::gen::inRange<std::int64_t>(1, 1'000'000),
               .pooling = *rc::gen::element(planner::Pooling::Sum, planner::Pooling::Mean)};
  op.m = op.world_size * *rc::gen::inRange<std::int64_t>(1, 1000);
  op.n = op.tables->table_count * *rc::gen::inRange<std::int64_t>(1, 1000);
  op.k = *rc::gen::inRange<std::int64_t>(1, 1000);
}

/// Turns an operator into one of several experts a rank.
inline void make_experts(planner::OpSpec& op) {
  op.kind = *rc::gen::element(planner::OpKind::MatmulAllToAll, planner::OpKind::AllToAllMatmul);
  op.experts_per_rank = *rc::gen::inRange<std::int64_t>(1, 257);
  op.m = op.world_size * op.experts_per_rank * *rc::gen::inRange<std::int64_t>(1, 100);
  op.n = *rc::gen::inRange<std::int64_t>(1, 1000);
  op.k = *rc::gen::inRange<std::int64_t>(1, 1000);
}

/// Turns an operator into one whose rows choose experts.
inline void make_grouped(planner::OpSpec& op) {
  op.kind = *rc::gen::element(planner::OpKind::AllGatherGroupedMatmul, planner::OpKind::GroupedMatmulReduceScatter,
                              planner::OpKind::GroupedMatmulAllReduce);
  op.experts = {.count = *rc::gen::inRange<std::int64_t>(64, 1000), .top_k = *rc::gen::inRange<std::int64_t>(1, 65)};
  op.m = op.world_size * *rc::gen::inRange<std::int64_t>(1, 100);
  op.n = *rc::gen::inRange<std::int64_t>(1, 1000);
  op.k = *rc::gen::inRange<std::int64_t>(1, 1000);
}

inline planner::OpSpec any_op() {
  planner::OpSpec op;
  op.m = *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, 65), rc::gen::inRange<std::int64_t>(65, 1'000'000));
  op.n = *rc::gen::inRange<std::int64_t>(1, 1'000'000);
  op.k = *rc::gen::inRange<std::int64_t>(1, 1'000'000);
  op.dtype = *rc::gen::element(planner::DType::F32, planner::DType::F16, planner::DType::Bf16);
  op.world_size = *rc::gen::inRange(2, 1025); // of more ranks the row numbers of all bags would be too many
  if (*rc::gen::inRange(0, 4) == 0)
    make_pooled(op);
  else if (*rc::gen::inRange(0, 4) == 0)
    make_experts(op);
  else if (*rc::gen::inRange(0, 4) == 0)
    make_grouped(op);
  return op;
}

/// Positive blocks that sum to `length`.
inline planner::Cut any_cut(std::int64_t length) {
  planner::Cut cut;
  while (length > 0) {
    cut.block_rows.push_back(*rc::gen::inRange<std::int64_t>(length / 4 + 1, length + 1));
    length -= cut.block_rows.back();
  }
  return cut;
}

inline planner::Variant any_variant() { return {any_text() + "v", any_texts()}; }

/// Spans that follow one another with gaps between them.
inline std::vector<planner::Span> any_spans(std::size_t count) {
  std::vector<double> ends(2 * count);
  for (double& end : ends) end = any_time();
  std::sort(ends.begin(), ends.end());
  std::vector<planner::Span> spans(count);
  for (std::size_t i = 0; i < count; ++i) spans[i] = {ends[2 * i], ends[2 * i + 1]};
  return spans;
}

/// A timeline in which the second lane starts its first block when the first lane has done all of them.
inline planner::Timeline any_timeline(std::size_t count) {
  planner::Timeline timeline{any_spans(count), any_spans(count), 0, any_time()};
  for (planner::Span& span : timeline.first) span = {span.start_us / 2, span.end_us / 2};
  const double handed_us = timeline.first.back().end_us;
  for (planner::Span& span : timeline.second) span = {handed_us + span.start_us / 2, handed_us + span.end_us / 2};
  timeline.makespan_us = std::fmax(any_time(), timeline.second.back().end_us);
  return timeline;
}

inline planner::Estimate any_estimate() {
  const double us = any_time(), other_us = any_time();
  return {us, std::min(us, other_us), std::max(us, other_us),
          *rc::gen::element(planner::Provenance::Measured, planner::Provenance::Extrapolated), any_text()};
}

inline planner::Plan any_plan() {
  planner::Plan plan = examples::plan();
  plan.op = any_op();
  plan.fingerprint = {any_texts()};
  plan.strategy = any_text() + "s";
  plan.variant = any_variant();
  plan.cut = any_cut(planner::traits_of(plan.op.kind).cut_axis_length(plan.op));
  plan.makespan = any_estimate();
  plan.compute_us = std::fmax(any_time() / 2, 1e-9);
  plan.communication_us = any_time() / 2;
  plan.serial_us = plan.compute_us + plan.communication_us;
  plan.ideal_us = std::fmax(plan.compute_us, plan.communication_us);
  plan.bound = *rc::gen::element(planner::Bound::Compute, planner::Bound::Communication);
  plan.slowdown = {std::fmax(any_time(), 1), std::fmax(any_time(), 1)};
  plan.schedule = *rc::gen::element(planner::Schedule::Pipelined, planner::Schedule::LocalFirst);
  plan.timeline = any_timeline(plan.span_count());
  plan.runners_up.assign(
      *rc::gen::inRange<std::size_t>(0, 3),
      {any_cut(planner::traits_of(plan.op.kind).cut_axis_length(plan.op)), any_variant(), any_time(), any_text()});
  plan.recipe.assign(*rc::gen::inRange<std::size_t>(0, 3), {any_text(), any_double(), any_text(), any_text()});
  if (*rc::gen::arbitrary<bool>()) plan.certificate->restriction_cost = any_double();
  if (*rc::gen::arbitrary<bool>()) plan.certificate.reset();
  if (*rc::gen::arbitrary<bool>()) plan.validation.reset();
  plan.reason = any_text();
  return plan;
}

/// As odd as positive_double(), but so short that a whole operator of any_op()'s size takes no longer than a plan may.
inline double positive_time() { return std::fmin(positive_double(), 0.1); }

inline planner::CostCurve::Shape any_segments() {
  planner::SegmentsCurve curve{1 + *rc::gen::inRange(0, 9) / 7.0, {}, {{0, 0, positive_time()}}};
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i) {
    const double knot_x = (curve.knots_x.empty() ? 0 : curve.knots_x.back()) + *rc::gen::inRange(1, 1000) / 3.0;
    curve.knots_x.push_back(knot_x);
    curve.pieces.push_back({0, 0, curve.pieces.back().q0 * (1 + *rc::gen::inRange(0, 9) / 7.0)});
  }
  curve.pieces.back().q1 = positive_time();
  curve.pieces.back().q2 = std::fmin(positive_double(), 1e-12); // a message may have some TB
  return curve;
}

inline planner::CostCurve::Shape any_staircase() {
  return planner::StaircaseCurve{positive_time(), positive_time(), positive_time(),
                                 1 + *rc::gen::inRange(0, 9000) / 7.0, any_text()};
}

inline planner::CostCurve::Shape any_interpolated() {
  planner::InterpolatedCurve curve{{{0, std::fmin(positive_double(), 1)}}};
  for (int i = *rc::gen::inRange(1, 6); i > 0; --i) {
    const auto [x, time_us] = curve.knots.back();
    curve.knots.push_back({x + *rc::gen::inRange(1, 1000) / 3.0, time_us + *rc::gen::inRange(0, 1000) / 7.0});
  }
  return curve;
}

inline planner::CostCurve any_curve(planner::CurveAxis axis) {
  planner::CostCurve curve = examples::affine_curve(axis);
  switch (*rc::gen::inRange(0, 5)) {
    case 0: curve.shape = examples::piecewise_curve().shape; break;
    case 1: curve.shape = any_segments(); break;
    case 2: curve.shape = any_staircase(); break;
    case 3: curve.shape = any_interpolated(); break;
    default: curve.shape = planner::AffineCurve{positive_time(), positive_time()};
  }
  curve.relative_interval = std::fmin(positive_double(), planner::kMaxCurveInterval);
  curve.quality = {any_count(), positive_double(), positive_double(), positive_double(), any_text()};
  return curve;
}

inline planner::CostModel any_model() {
  planner::CostModel model;
  model.op = any_op();
  const bool has_local = !model.op.tables && !model.op.experts && *rc::gen::arbitrary<bool>();
  if (has_local) {
    model.op.kind = planner::OpKind::AllGatherMatmul;
    model.op.experts_per_rank = 1;
    model.op.m = model.op.world_size * *rc::gen::inRange<std::int64_t>(1, 1000);
  }
  model.fingerprint = {any_texts()};
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    const planner::Variant variant{any_text() + "v" + std::to_string(i), any_texts()}; // differs from those before
    model.variants.push_back(
        {variant,
         {any_curve(planner::compute_axis(model.op)), any_time(), 1 + *rc::gen::inRange(0, 9) / 7.0},
         {any_curve(planner::CurveAxis::Bytes), any_time(), 1}});
  }
  if (has_local) model.variants.front().local_compute = any_curve(planner::CurveAxis::Rows);
  if (*rc::gen::arbitrary<bool>()) model.variants.back().run_us = any_time();
  if (*rc::gen::arbitrary<bool>()) {
    model.variants.back().compute.start_us = any_time();
    model.variants.back().compute.start_interval = std::fmin(any_time(), planner::kMaxCurveInterval);
  }
  if (*rc::gen::arbitrary<bool>()) model.variants.back().open_steps = {{0.1, -any_time(), any_time(), 0}, {}};
  if (*rc::gen::arbitrary<bool>()) model.anchored_interval = 0.01 + std::fmin(positive_double(), 9);
  if (*rc::gen::arbitrary<bool>()) model.serial = {any_variant(), std::fmax(any_time(), 0.01)};
  model.source = any_text();
  return model;
}

inline planner::Sample any_sample(const planner::OpSpec& op) {
  planner::Sample sample;
  sample.component = *rc::gen::element(planner::Component::Matmul, planner::Component::Collective);
  sample.context = *rc::gen::element(planner::Context::Alone, planner::Context::CoRun);
  sample.variant = any_text() + "v";
  sample.block_rows = *rc::gen::inRange<std::int64_t>(0, planner::kMaxSize);
  sample.block_count = *rc::gen::inRange<std::int64_t>(1, planner::kMaxSize);
  if (sample.component == planner::Component::Collective) {
    const std::int64_t unit_bytes = planner::traits_of(op.kind).message_bytes_per_unit(op);
    sample.message_bytes = *rc::gen::inRange<std::int64_t>(0, std::numeric_limits<std::int64_t>::max());
    sample.block_rows = std::clamp<std::int64_t>(sample.message_bytes / unit_bytes, 1, planner::kMaxSize);
  }
  sample.time = std::chrono::nanoseconds(*rc::gen::inRange<std::int64_t>(1, 1'000'000'000'000'000'000));
  sample.slowest_rank = *rc::gen::inRange(0, op.world_size);
  sample.round = any_count();
  sample.is_outlier = *rc::gen::arbitrary<bool>();
  sample.start = std::chrono::nanoseconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000'000'000));
  return sample;
}

inline planner::Profile any_profile() {
  planner::Profile profile{any_op(), {any_texts()}, {}};
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i) profile.samples.push_back(any_sample(profile.op));
  return profile;
}

} // namespace mc2::store::generators
