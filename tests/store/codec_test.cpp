#include "mc2/store/codec.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "examples.hpp"
#include "generators.hpp"
#include "mc2/planner/cutting.hpp"
#include "support/topologies.hpp"

namespace mc2::store::codec_test {
namespace {

using nlohmann::json;

/// What a test needs of a decoder, whatever value it makes: that value's encoding, or the error.
using Verdict = Result<std::string>;

template <typename T>
Verdict reencoded(const Result<T>& decoded) {
  return decoded ? Verdict(encode(decoded.value())) : Verdict(decoded.error());
}

struct DocumentCase {
  std::string name;
  std::string text;
  Verdict (*decode)(std::string_view);
};

std::vector<DocumentCase> every_document() {
  return {
      {"plan", encode(examples::plan()), [](std::string_view text) { return reencoded(decode_plan(text)); }},
      {"model", encode(examples::model()), [](std::string_view text) { return reencoded(decode_model(text)); }},
      {"profile", encode(examples::profile()), [](std::string_view text) { return reencoded(decode_profile(text)); }},
      {"fingerprint", encode(examples::fingerprint()),
       [](std::string_view text) { return reencoded(decode_fingerprint(text)); }},
      {"request", encode(examples::request()), [](std::string_view text) { return reencoded(decode_request(text)); }},
      {"plan_ranges", encode(examples::plan_ranges()),
       [](std::string_view text) { return reencoded(decode_plan_ranges(text)); }},
      {"topology", encode(planner::examples::topology()),
       [](std::string_view text) { return reencoded(decode_topology(text)); }}};
}

/// The plan example with one value replaced, as text.
std::string plan_with(const std::string& pointer, const json& value) {
  json document = json::parse(encode(examples::plan()));
  document[json::json_pointer(pointer)] = value;
  return document.dump();
}

void expect_refused(const Verdict& verdict, ErrorCode code, const std::string& field, const std::string& message) {
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.error().code, code) << verdict.error().text();
  EXPECT_EQ(verdict.error().field, field) << verdict.error().text();
  EXPECT_NE(verdict.error().message.find(message), std::string::npos) << verdict.error().text();
  EXPECT_EQ(verdict.error().text().find('\n'), std::string::npos);
}

void expect_plan_refused(const std::string& text, ErrorCode code, const std::string& field,
                         const std::string& message) {
  expect_refused(reencoded(decode_plan(text)), code, field, message);
}

RC_GTEST_PROP(Codec, PlanComesBackToTheBit, ()) {
  const auto plan = generators::any_plan();
  const auto decoded = decode_plan(encode(plan));
  if (!decoded) RC_FAIL(decoded.error().text());
  RC_ASSERT(decoded.value() == plan);
  RC_ASSERT(encode(decoded.value()) == encode(plan));
}

RC_GTEST_PROP(Codec, ModelComesBackToTheBit, ()) {
  const auto model = generators::any_model();
  const auto decoded = decode_model(encode(model));
  RC_ASSERT(decoded.ok());
  RC_ASSERT(decoded.value() == model);
  RC_ASSERT(encode(decoded.value()) == encode(model));
}

RC_GTEST_PROP(Codec, ProfileComesBackToTheBit, ()) {
  const auto profile = generators::any_profile();
  const auto decoded = decode_profile(encode(profile));
  RC_ASSERT(decoded.ok());
  RC_ASSERT(decoded.value() == profile);
}

RC_GTEST_PROP(Codec, FingerprintComesBackToTheBit, ()) {
  const planner::Fingerprint fingerprint{generators::any_texts()};
  const auto decoded = decode_fingerprint(encode(fingerprint));
  RC_ASSERT(decoded.ok());
  RC_ASSERT(decoded.value() == fingerprint);
}

RC_GTEST_PROP(Codec, DamagedTextIsRefusedOrReadsAsAValue, ()) {
  for (const auto& document : every_document()) {
    std::string text = document.text;
    for (int i = *rc::gen::inRange(1, 4); i > 0; --i)
      text[*rc::gen::inRange<std::size_t>(0, text.size())] = *rc::gen::arbitrary<char>();
    const auto verdict = document.decode(text);
    if (verdict) RC_ASSERT(document.decode(verdict.value()).ok());
  }
}

TEST(Codec, EveryDocumentIsCanonical) {
  for (const auto& document : every_document()) {
    const auto again = document.decode(document.text);
    ASSERT_TRUE(again.ok()) << document.name << ": " << again.error().text();
    EXPECT_EQ(again.value(), document.text);
    EXPECT_EQ(document.text, json::parse(document.text).dump()) << "keys are not sorted or white space is left";
  }
}

TEST(Codec, CanonicalFormIsSortedAndWithoutWhiteSpace) {
  // Keys in byte order; 1.15 and whole sizes in their shortest form.
  EXPECT_EQ(
      encode(PlanRequest{examples::op(), {}}),
      "{\"op\":{\"dtype\":\"f32\",\"k\":256,\"kind\":\"matmul_all_reduce\",\"m\":1024,\"n\":512,\"world_size\":2},"
      "\"options\":{\"alignment\":128,\"formula_contention\":1.15,\"formula_short_block\":\"largest\","
      "\"max_block_count\":64,\"min_block_rows\":128,\"objective_quantile\":0.5,\"require_significant_gain\":true,"
      "\"runner_up_count\":5,\"strategy\":\"search\"},"
      "\"schema\":\"mc2.request/1\"}");
}

TEST(PlanRequest, LeavesToTheMachineWhatItDoesNotName) {
  const planner::PlanOptions usual = planner::default_options_on({{{"backend", "torch/gloo"}}});
  EXPECT_EQ(PlanRequest::usual(examples::op()).options_with(usual), usual);
  PlanRequest request{examples::op(), {}};
  request.options.alignment = request.options.min_block_rows = 8;
  request.options.max_block_count = 4;
  EXPECT_EQ(request.options_with(usual), request.options);
  request.options.max_block_count = planner::PlanOptions().max_block_count; // earlier clients write it always
  EXPECT_EQ(request.options_with(usual).max_block_count, usual.max_block_count);
  request.has_max_block_count = true;
  EXPECT_EQ(request.options_with(usual), request.options);
}

TEST(Codec, TablesStandBesideTheSizesOfTheirOperator) {
  const std::string text = encode(PlanRequest{examples::pooled_op(), {}});
  EXPECT_NE(text.find("\"n\":512,\"tables\":{\"count\":8,\"pooling\":\"mean\",\"row_count\":100000},\"world_size\":2"),
            std::string::npos)
      << text;
  EXPECT_EQ(decode_request(text).value().op, examples::pooled_op());
  json wrong = json::parse(text);
  wrong["op"]["tables"]["row_count"] = 0;
  EXPECT_EQ(decode_request(wrong.dump()).error().field, "op.tables.row_count");
  wrong = json::parse(text);
  wrong["op"]["tables"]["pooling"] = "max";
  EXPECT_EQ(decode_request(wrong.dump()).error().field, "op.tables.pooling");
  wrong = json::parse(text);
  wrong["op"].erase("tables");
  EXPECT_EQ(decode_request(wrong.dump()).error().field, "op.tables");
}

TEST(Codec, CountsThatAreGivenAreNotEmpty) {
  json request = json::parse(encode(examples::request()));
  request["options"]["counts"] = json::array();
  const Error refused = decode_request(request.dump()).error();
  EXPECT_EQ(refused.field, "options.counts");
  EXPECT_NE(refused.message.find("is empty; leave it out"), std::string::npos) << refused.message;
}

TEST(Codec, SignedZeroAndExtremeDoublesSurvive) {
  planner::Plan plan = examples::plan();
  plan.timeline.overlap_us = -0.0;
  plan.makespan.low_us = std::numeric_limits<double>::denorm_min();
  plan.recipe.front().value = std::numeric_limits<double>::max(); // a recipe's value may be so large, a time may not
  plan.makespan.high_us = 100.1;
  const auto decoded = decode_plan(encode(plan));
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(std::signbit(decoded.value().timeline.overlap_us));
  EXPECT_EQ(decoded.value(), plan);
  EXPECT_NE(encode(plan).find("\"high_us\":100.1,"), std::string::npos);
}

TEST(Codec, RequestWithoutOptionsMeansTheDefaults) {
  const auto full = json::parse(encode(PlanRequest{examples::op(), {}}));
  json without = full;
  without.erase("options");
  json partial = full;
  partial["options"] = {{"alignment", 64}};
  ASSERT_TRUE(decode_request(without.dump()).ok());
  EXPECT_EQ(decode_request(without.dump()).value().options, planner::PlanOptions{});
  ASSERT_TRUE(decode_request(partial.dump()).ok());
  EXPECT_EQ(decode_request(partial.dump()).value().options.alignment, 64);
}

TEST(Codec, UnusualOptionsAreNamedInOneOrderOnly) {
  const planner::PlanOptions usual{.alignment = 64, .min_block_rows = 64};
  EXPECT_EQ(unusual_options(usual, usual), "");
  planner::PlanOptions options = usual;
  options.runner_up_count = 9;
  EXPECT_EQ(unusual_options(options, usual), "");
  options.strategy = "free";
  options.objective_quantile = 0.9;
  options.max_block_count = 4;
  options.contention = planner::LaneContention{1.5, 1};
  EXPECT_EQ(
      unusual_options(options, usual),
      "contention={\"communication\":1.0,\"compute\":1.5}, max_block_count=4, objective_quantile=0.9, strategy=free");
}

TEST(Codec, WholeNumbersAreAcceptedWhereDoublesAreExpected) {
  const auto decoded = decode_plan(plan_with("/makespan/high_us", 91));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value().makespan.high_us, 91.0);
}

TEST(Codec, EveryTruncationIsMalformed) {
  for (const auto& document : every_document())
    for (std::size_t length = 0; length < document.text.size(); ++length) {
      const auto verdict = document.decode(std::string_view(document.text).substr(0, length));
      ASSERT_FALSE(verdict.ok()) << document.name << " of " << length << " bytes";
      ASSERT_EQ(verdict.error().code, ErrorCode::Malformed);
    }
}

TEST(Codec, EveryMissingKeyAndWrongTypeIsRefusedWithItsPath) {
  for (const auto& document : every_document()) {
    const json flat = json::parse(document.text).flatten();
    for (const auto& [pointer, value] : flat.items()) {
      json changed = json::parse(document.text);
      changed[json::json_pointer(pointer)] = json::array({json::object()});
      const auto verdict = document.decode(changed.dump());
      ASSERT_FALSE(verdict.ok()) << document.name << pointer;
      const std::string last = json::json_pointer(pointer).back();
      EXPECT_NE(verdict.error().field.find(last), std::string::npos) << pointer << ": " << verdict.error().text();
    }
  }
}

TEST(Codec, SchemaOfANewerVersionIsNamed) {
  expect_plan_refused(plan_with("/schema", "mc2.plan/2"), ErrorCode::NewerVersion, "schema",
                      "this one reads 'mc2.plan/1'");
}

TEST(Codec, NewerVersionIsReportedBeforeItsUnknownKeys) {
  expect_plan_refused("{\"schema\":\"mc2.plan/2\",\"future\":1}", ErrorCode::NewerVersion, "schema", "newer");
}

/// A plan for 16 rows, which are cut along n.
planner::Plan column_plan() {
  planner::Plan plan = examples::plan();
  plan.op.m = 16;
  plan.cut = {{128, plan.op.n - 128}};
  plan.runners_up.front().cut = {{plan.op.n}};
  return plan;
}

TEST(Codec, BlocksOfColumnsHaveAKeyOfTheirOwn) {
  const json document = json::parse(encode(column_plan()));
  EXPECT_TRUE(document["cut"].contains("block_columns"));
  EXPECT_TRUE(document["runners_up"][0]["cut"].contains("block_columns"));
  EXPECT_EQ(decode_plan(document.dump()).value(), column_plan());
}

TEST(Codec, RowsOfAnOperatorThatIsCutAlongNAreStale) {
  json plan = json::parse(encode(column_plan()));
  plan["cut"] = {{"block_rows", {16}}};
  expect_refused(reencoded(decode_plan(plan.dump())), ErrorCode::Stale, "cut", "cut along n");
  const planner::Profile profile = examples::profile(16);
  json samples = json::parse(encode(profile));
  EXPECT_EQ(decode_profile(samples.dump()).value(), profile);
  samples["samples"][0]["block_rows"] = samples["samples"][0]["block_columns"];
  samples["samples"][0].erase("block_columns");
  expect_refused(reencoded(decode_profile(samples.dump())), ErrorCode::Stale, "samples[0]", "cut along n");
  planner::CostModel model = examples::model();
  model.op.m = 16;
  model.variants.front().compute.curve.axis = planner::CurveAxis::Columns;
  json curves = json::parse(encode(model));
  EXPECT_EQ(decode_model(curves.dump()).value(), model);
  curves["variants"][0]["compute"]["curve"]["axis"] = "rows";
  expect_refused(reencoded(decode_model(curves.dump())), ErrorCode::Stale, "variants[0].compute.curve.axis", "");
}

TEST(Codec, PlansThatAreNotToBeCutSaySo) {
  planner::Plan plan = examples::plan();
  EXPECT_FALSE(json::parse(encode(plan)).contains("is_serial"));
  plan.schedule = planner::Schedule::Serial;
  EXPECT_EQ(decode_plan(encode(plan)).error().field, "is_serial") << "it is cut";
  plan.cut = {{planner::traits_of(plan.op.kind).cut_axis_length(plan.op)}};
  plan.timeline = {{{0, 70}}, {{70, 90.5}}, 90.5, 0};
  EXPECT_EQ(json::parse(encode(plan))["is_serial"], true);
  EXPECT_EQ(decode_plan(encode(plan)).value(), plan);
  json both = json::parse(encode(plan));
  both["is_local_first"] = true;
  EXPECT_EQ(decode_plan(both.dump()).error().field, "is_serial");
}

TEST(Codec, EpilogueIsWrittenWhereThereIsOne) {
  planner::Plan plan = examples::plan();
  EXPECT_FALSE(json::parse(encode(plan))["op"].contains("epilogue"));
  plan.op.epilogue = {.has_bias = true, .has_residual = false};
  EXPECT_EQ(json::parse(encode(plan))["op"]["epilogue"], "bias");
  EXPECT_EQ(decode_plan(encode(plan)).value(), plan);
  expect_plan_refused(plan_with("/op/epilogue", "gelu"), ErrorCode::UnknownName, "op.epilogue", "residual");
}

TEST(Codec, OtherOrMissingSchemaIsMalformed) {
  expect_plan_refused(plan_with("/schema", "mc2.profile/1"), ErrorCode::Malformed, "schema", "expected 'mc2.plan/1'");
  expect_plan_refused(plan_with("/schema", "mc2.plan/x"), ErrorCode::Malformed, "schema", "expected 'mc2.plan/1'");
  expect_plan_refused("{}", ErrorCode::Malformed, "", "key 'schema' is missing");
  expect_plan_refused("[1]", ErrorCode::Malformed, "", "expected an object, found an array");
}

TEST(Codec, UnknownKeyIsNamedWithTheLegalOnes) {
  expect_plan_refused(plan_with("/op/q", 1), ErrorCode::Malformed, "op",
                      "unknown key 'q'; legal: dtype, k, kind, m, n, world_size, epilogue");
}

TEST(Codec, RepeatedKeyIsRefused) {
  expect_plan_refused("{\"schema\":\"mc2.plan/1\",\"op\":{\"m\":1,\"m\":2}}", ErrorCode::Malformed, "op",
                      "key 'm' appears twice");
}

TEST(Codec, UnknownNamesListTheLegalOnes) {
  expect_plan_refused(plan_with("/op/kind", "matmul"), ErrorCode::UnknownName, "op.kind", "matmul_all_reduce");
  expect_plan_refused(plan_with("/op/dtype", "f64"), ErrorCode::UnknownName, "op.dtype", "bf16");
  expect_plan_refused(plan_with("/bound", "memory"), ErrorCode::UnknownName, "bound", "communication");
  expect_plan_refused(plan_with("/makespan/provenance", "?"), ErrorCode::UnknownName, "makespan.provenance",
                      "analytic");
  json model = json::parse(encode(examples::model()));
  model["variants"][0]["compute"]["curve"]["shape"]["family"] = "cubic";
  expect_refused(reencoded(decode_model(model.dump())), ErrorCode::UnknownName,
                 "variants[0].compute.curve.shape.family",
                 "legal: affine, piecewise, segments, staircase, interpolated");
}

TEST(Codec, EveryCurveFamilySurvives) {
  const planner::CostModel model = examples::varied_model();
  const auto again = decode_model(encode(model));
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again.value(), model);
}

TEST(Codec, CurvesThatCannotBeAreInvalid) {
  const json varied = json::parse(encode(examples::varied_model()));
  const auto refused = [&](const char* pointer, const json& value, const std::string& field) {
    json model = varied;
    model[json::json_pointer(pointer)] = value;
    expect_refused(reencoded(decode_model(model.dump())), ErrorCode::InvalidSpec, field, "");
  };
  const std::string segments = "variants[1].communication.curve.";
  const std::string staircase = "variants[1].compute.curve.";
  const std::string interpolated = "variants[2].communication.curve.";
  refused("/variants/1/communication/curve/shape/knots_x/1", 65536.0, segments + "knots_x[1]");
  refused("/variants/1/communication/curve/shape/pieces", json::array(), segments + "pieces");
  refused("/variants/1/communication/curve/shape/pieces/0/q0", 20.0, segments + "pieces[1].q0"); // falls by 17.7 %
  refused("/variants/1/communication/curve/shape/knots_x", json(std::vector<double>(257, 1.0)), segments + "knots_x");
  refused("/variants/1/compute/curve/shape/period_x", 0.5, staircase + "period_x");
  refused("/variants/1/compute/curve/shape/step_us", -1.0, staircase + "step_us");
  refused("/variants/1/compute/curve/shape/beta_us_per_x", 1e308, staircase + "shape"); // 4096 times that is infinite
  refused("/variants/2/communication/curve/shape/knots/1/time_us", 10.0, interpolated + "knots[1].time_us");
  refused("/variants/2/communication/curve/shape/knots/2/x", 1e19, interpolated + "knots[2].x");
}

TEST(Codec, ValuesOutsideTheirRangeAreInvalid) {
  expect_plan_refused(plan_with("/op/m", 0), ErrorCode::InvalidSpec, "op.m", "legal: 1 to 1000000000");
  expect_plan_refused(plan_with("/op/world_size", 1), ErrorCode::InvalidSpec, "op.world_size", "legal: 2 to 65536");
  // The example has blocks of 128 + 896 = 1024 rows; 128 + 895 are 1023.
  expect_plan_refused(plan_with("/cut/block_rows/1", 895), ErrorCode::InvalidSpec, "cut.block_rows",
                      "sum to 1023, not 1024 rows");
  json request = json::parse(encode(examples::request()));
  request["options"]["alignment"] = 0;
  expect_refused(reencoded(decode_request(request.dump())), ErrorCode::InvalidSpec, "options.alignment", "");
  json model = json::parse(encode(examples::model()));
  model["variants"][0]["compute"]["slowdown"] = 0.01;
  expect_refused(reencoded(decode_model(model.dump())), ErrorCode::InvalidSpec, "variants[0].compute.slowdown",
                 "is 0.01; legal: 0.05 to 1e15");
}

TEST(Codec, PlansThatCannotBeAreInvalid) {
  const std::pair<const char*, json> changes[]{{"/makespan/us", -1},
                                               {"/makespan/high_us", 1e300},
                                               {"/makespan/low_us", 90.95},
                                               {"/serial_us", -121},
                                               {"/compute_us", 1.1e15},
                                               {"/communication_us", -0.5},
                                               {"/ideal_us", -1},
                                               {"/slowdown/first", 0.5},
                                               {"/slowdown/second", 1e300},
                                               {"/timeline/makespan_us", -90},
                                               {"/timeline/overlap_us", -1},
                                               {"/timeline/first/1/end_us", -70},
                                               {"/timeline/first", json::array()},
                                               {"/timeline/second", json::array()},
                                               {"/runners_up/0/makespan_us", -1},
                                               {"/validation/fused_us", -91},
                                               {"/validation/serial_us", 1e300},
                                               {"/validation/benefit_low", 0.6},
                                               {"/validation/spread/fused_low_us", 93},
                                               {"/validation/spread/serial_high_us", -1},
                                               {"/validation/spread/speed_range", 0.5},
                                               {"/benefit_interval/low", 0.5},
                                               {"/strategy", ""},
                                               {"/variant/name", ""},
                                               {"/runners_up/0/variant/name", ""}};
  for (const auto& [pointer, value] : changes) {
    const auto verdict = decode_plan(plan_with(pointer, value));
    ASSERT_FALSE(verdict.ok()) << pointer;
    EXPECT_EQ(verdict.error().code, ErrorCode::InvalidSpec) << pointer;
    const std::string last = json::json_pointer(pointer).back();
    const std::string& field = verdict.error().field;
    EXPECT_TRUE(field.ends_with(last) || field == "slowdown") << pointer << ": " << verdict.error().text();
  }
  expect_plan_refused(plan_with("/makespan/us", 100), ErrorCode::InvalidSpec, "makespan.us",
                      "outside its own interval");
  expect_plan_refused(plan_with("/makespan/low_us", 100), ErrorCode::InvalidSpec, "makespan.low_us",
                      "is 100, above the interval's upper end, 90.9; must be at most that");
}

TEST(Codec, SamplesThatCannotBeAreRefused) {
  for (const json& value : {json(0), json(-1), json(1'000'000'000'000'000'001)}) {
    json profile = json::parse(encode(examples::profile()));
    profile["samples"][1]["time_ns"] = value;
    expect_refused(reencoded(decode_profile(profile.dump())), ErrorCode::Malformed, "samples[1].time_ns",
                   "expected a whole number from 1 to 1000000000000000000");
  }
  json profile = json::parse(encode(examples::profile()));
  profile["samples"][0]["variant"] = "";
  expect_refused(reencoded(decode_profile(profile.dump())), ErrorCode::InvalidSpec, "samples[0].variant", "is empty");
}

TEST(Codec, SamplesThatContradictTheirOperatorAreInvalid) {
  const json good = json::parse(encode(examples::profile())); // blocks of 256 rows, of 2048 B each
  const std::pair<const char*, json> changes[]{{"/samples/1/message_bytes", 524288 / 4},
                                               {"/samples/1/message_bytes", 524288 + 2048},
                                               {"/samples/1/message_bytes", 0},
                                               {"/samples/1/slowest_rank", 2},
                                               {"/fingerprint/ranks", "8"}};
  for (const auto& [pointer, value] : changes) {
    json document = good;
    document[json::json_pointer(pointer)] = value;
    const std::string field = std::string(pointer).starts_with("/samples")
                                  ? "samples[1]." + json::json_pointer(pointer).back()
                                  : "fingerprint.ranks";
    expect_refused(reencoded(decode_profile(document.dump())), ErrorCode::InvalidSpec, field, "");
  }
  json matmul = good;
  matmul["samples"][0]["component"] = "matmul";
  expect_refused(reencoded(decode_profile(matmul.dump())), ErrorCode::InvalidSpec, "samples[0].message_bytes",
                 "must be 0 of a matmul");
  json whole = good; // a log's message is not of whole rows: as many rows as fit, at least one
  whole["samples"][0]["message_bytes"] = 524288 + 2047;
  whole["samples"][1]["message_bytes"] = 4, whole["samples"][1]["block_rows"] = 1;
  whole["fingerprint"]["ranks"] = "2";
  EXPECT_TRUE(decode_profile(whole.dump())) << decode_profile(whole.dump()).error().text();
}

TEST(Codec, RangesThatCannotBeAreInvalid) {
  const json good = json::parse(encode(examples::plan_ranges()));
  const std::tuple<const char*, json, const char*> changes[]{
      {"/ranges/1/rule/min_odd_length", 257, "ranges[1].rule.min_odd_length"}, // the range begins at m = 256
      {"/ranges/1/least_benefit", 0.5, "ranges[1].least_benefit"},
      {"/ranges/1/most_benefit", 1.5, "ranges[1].most_benefit"},
      {"/ranges/2/benefit_interval/low", 0.5, "ranges[2].benefit_interval.low"},
      {"/ranges/2/loss", -4, "ranges[2].loss"},
      {"/planned_count", 4031, "planned_count"},
      {"/gaps", json::array(), "ranges"},
      {"/gaps/0/last_m", 65, "ranges"}};
  for (const auto& [pointer, value, field] : changes) {
    json document = good;
    document[json::json_pointer(pointer)] = value;
    expect_refused(reencoded(decode_plan_ranges(document.dump())), ErrorCode::InvalidSpec, field, "");
  }
  json without = good;
  without["ranges"].erase(1);
  expect_refused(reencoded(decode_plan_ranges(without.dump())), ErrorCode::InvalidSpec, "ranges",
                 "have 2287 m and gaps 64 of the 4096 from 1 to 4096"); // 65 to 255 and 2001 to 4096
}

TEST(Codec, MeasurementsThatCannotBeAreInvalid) {
  const MeasurementRecord good{examples::fingerprint(), examples::measurement()};
  const std::pair<const char*, json> changes[]{
      {"fused_us", -1},    {"fused_us", 0},          {"serial_us", 1e300},      {"serial_us", 1e-300},
      {"compute_us", -1},  {"communication_us", -1}, {"predicted_us", -1},      {"predicted_us", 1e-320},
      {"benefit", 7},      {"benefit", 0.1}, // outside the interval 0.2 to 0.3
      {"benefit", -1e300}, {"benefit_low", 0.4},     {"benefit_low", -1e300},   {"benefit_high", 8},
      {"pair_count", 0},   {"relative_error", 1},    {"compute_blocks_us", -1}, {"communication_blocks_us", 1e12}};
  for (const auto& [key, value] : changes) {
    json document = json::parse(encode(good));
    document[key] = value;
    expect_refused(reencoded(decode_measurement(document.dump())), ErrorCode::InvalidSpec, key, "");
  }
  json wide = json::parse(encode(good)); // runs that vary much, as earlier versions kept them
  wide["benefit_low"] = -1.2, wide["benefit_high"] = 1.7;
  EXPECT_TRUE(decode_measurement(wide.dump())) << decode_measurement(wide.dump()).error().text();
}

TEST(Codec, ControlCharactersAreRefusedWhereverTheyStand) {
  for (const char* text : {"\x1b[31mred", "a\nb", "tab\t", "\x7f", "c1 \xc2\x9b", "\r"})
    for (const char* pointer :
         {"/reason", "/strategy", "/variant/name", "/variant/fields/chunk_rows", "/fingerprint/link", "/recipe/0/unit",
          "/makespan/reason", "/certificate/text", "/runners_up/0/reason"}) {
      const auto verdict = decode_plan(plan_with(pointer, text));
      ASSERT_FALSE(verdict.ok()) << pointer;
      EXPECT_NE(verdict.error().message.find("control characters"), std::string::npos) << verdict.error().text();
      EXPECT_EQ(verdict.error().text().find('\x1b'), std::string::npos);
    }
  EXPECT_FALSE(decode_plan(plan_with("/variant/fields", {{"\x1b[2J", "x"}})).ok()) << "a key";
  EXPECT_TRUE(decode_plan(plan_with("/reason", "plain \xc3\xa9 \xe6\x97\xa5")).ok());
}

TEST(Codec, TopologyComesBack) {
  planner::Topology topology = planner::examples::topology();
  topology.calibration = "3 points";
  topology.relative_interval = 0.25;
  topology.uncertainty = {.launch_us = 0.5, .inter_gb_per_s = 0.1};
  EXPECT_EQ(decode_topology(encode(topology)).value(), topology);
}

TEST(Codec, HostileTopologiesAreRefused) {
  const auto refuse = [](const char* pointer, const json& value, ErrorCode code, const char* field,
                         const char* message) {
    json document = json::parse(encode(planner::examples::topology()));
    document[json::json_pointer(pointer)] = value;
    expect_refused(reencoded(decode_topology(document.dump())), code, field, message);
  };
  refuse("/node_count", 0, ErrorCode::InvalidSpec, "node_count", "1 to 65536");
  refuse("/node_count", 1'000'000'000, ErrorCode::InvalidSpec, "node_count", "1 to 65536");
  refuse("/node_count", 1e300, ErrorCode::Malformed, "node_count", "whole number");
  refuse("/protocols/0/inter/gb_per_s", 0, ErrorCode::InvalidSpec, "protocols[0].inter.gb_per_s", "1e-06 to 1000000");
  refuse("/protocols/0/inter/gb_per_s", -4, ErrorCode::InvalidSpec, "protocols[0].inter.gb_per_s", "1e-06 to 1000000");
  refuse("/protocols/0/inter/gb_per_s", "NaN", ErrorCode::Malformed, "protocols[0].inter.gb_per_s", "a number");
  refuse("/protocols", json::array(), ErrorCode::InvalidSpec, "protocols", "1 to 16");
  refuse("/protocols", json(std::vector<json>(100'000, json::object())), ErrorCode::Malformed, "protocols[0]",
         "missing");
  refuse("/algorithms", json::object(), ErrorCode::InvalidSpec, "algorithms", "empty");
  refuse("/algorithms/broadcast", json::array({"ring"}), ErrorCode::Malformed, "algorithms", "unknown key");
  refuse("/algorithms/all_reduce/0", "rings", ErrorCode::UnknownName, "algorithms.all_reduce[0]", "legal: ring");
  refuse("/algorithms/all_to_all/0", "ring", ErrorCode::InvalidSpec, "algorithms.all_to_all", "does no all_to_all");
  refuse("/transport", "pigeon", ErrorCode::UnknownName, "transport", "host_proxy");
  refuse("/sources/compute", 4, ErrorCode::Malformed, "sources.compute", "a text");
}

TEST(Codec, NumbersThatDoNotFitAreMalformed) {
  expect_plan_refused(plan_with("/op/m", 1024.5), ErrorCode::Malformed, "op.m", "expected a whole number");
  expect_plan_refused(plan_with("/op/m", std::uint64_t{1} << 63U), ErrorCode::Malformed, "op.m",
                      "found 9223372036854775808");
  expect_plan_refused(plan_with("/op/world_size", std::int64_t{1} << 31U), ErrorCode::Malformed, "op.world_size",
                      "to 2147483647");
  expect_plan_refused(plan_with("/cut/block_rows/0", -1), ErrorCode::Malformed, "cut.block_rows[0]", "from 1 to");
}

TEST(Codec, WhatIsNotJsonIsMalformedWithLineAndColumn) {
  expect_plan_refused("{\n  \"schema\": NaN}", ErrorCode::Malformed, "line 2, column 13", "is no JSON");
  expect_plan_refused("", ErrorCode::Malformed, "line 1, column 1", "is no JSON");
  for (const char* text : {"{\"a\":Infinity}", "{\"a\":-Infinity}", "{\"a\":1e999}", "{\"a\":01}", "{'a':1}", "{}{}",
                           "{\"a\":1,}", "// comment\n{}", "{\"a\":\"\xff\"}", "{\"a\":\"\\ud800\"}"}) {
    const auto verdict = decode_plan(text);
    ASSERT_FALSE(verdict.ok()) << text;
    EXPECT_EQ(verdict.error().code, ErrorCode::Malformed) << text;
  }
}

TEST(Codec, LongForeignTextIsCutInMessages) {
  const auto verdict = decode_plan(plan_with("/op/kind", std::string(100'000, 'x') + "\n"));
  ASSERT_FALSE(verdict.ok());
  EXPECT_LT(verdict.error().text().size(), 400U);
}

TEST(Codec, TextThatIsNotUtf8IsReplacedRatherThanFatal) {
  planner::Plan plan = examples::plan();
  plan.reason = "bad \xff byte";
  const auto decoded = decode_plan(encode(plan));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value().reason, "bad \xEF\xBF\xBD byte");
}

TEST(Codec, EncodingANumberThatIsNotFiniteThrows) {
  planner::Plan plan = examples::plan();
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    plan.serial_us = value;
    EXPECT_THROW(static_cast<void>(encode(plan)), std::range_error);
  }
}

TEST(Codec, PrettyFormReadsBackAsTheSameValue) {
  const std::string text = pretty(encode(examples::plan()));
  EXPECT_EQ(text.substr(0, 14), "{\n  \"benefit_i");
  EXPECT_EQ(text.back(), '\n');
  const auto decoded = decode_plan(text);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value(), examples::plan());
}

TEST(Codec, DigestIsSha256) {
  // FIPS 180-4 examples.
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

} // namespace
} // namespace mc2::store::codec_test
