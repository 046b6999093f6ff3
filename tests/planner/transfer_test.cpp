#include "mc2/planner/transfer.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "mc2/planner/planner.hpp"
#include "mc2/planner/speed_spread.hpp"
#include "support/leave_one_shape_out.hpp"
#include "support/models.hpp"

namespace mc2::planner::transfer_test {
namespace {

using testing::affine;
using testing::all_reduce_op;
using testing::model_of;

const OpSpec kSource = all_reduce_op(1024, 1024, 1024, DType::F32, 2);

CostModel source_model() {
  CostModel model = model_of(kSource, affine(CurveAxis::Rows, 10, 0.5), affine(CurveAxis::Bytes, 20, 1e-3), 1.1, 1.2);
  model.variants.front().compute.curve.valid_min_x = 64;
  model.variants.front().compute.curve.valid_max_x = 1024;
  model.variants.front().compute.curve.relative_interval = 0.02;
  model.variants.front().communication.curve.relative_interval = 0.03;
  return model;
}

OpSpec shaped(std::int64_t n, std::int64_t k, std::int64_t m = 1024) { return all_reduce_op(m, n, k, DType::F32, 2); }

CostModel with_shape(const CostCurve::Shape& shape) {
  CostModel model = source_model();
  model.variants.front().compute.curve.shape = shape;
  return model;
}

double compute_us(const CostModel& model, double rows) { return model.variants.front().compute.curve.time_us(rows); }

Transfer transferred(const CostModel& model, const OpSpec& target) {
  return transfer(model, target, model.fingerprint).value();
}

TEST(Transfer, IsTheModelItselfForTheSameShape) {
  CostModel expected = source_model();
  expected.op.m = 3000;
  const Transfer same = transferred(source_model(), shaped(1024, 1024, 3000));
  EXPECT_TRUE(same.is_same);
  EXPECT_EQ(same.model, expected);
}

TEST(Transfer, ScalesTheRowsAndKeepsTheFixedPart) {
  // n doubles and k is 1.5 times as long, so a row has 3 times the FLOPs: 10 + 0.5 * 3 * 100 = 160.
  const Transfer wider = transferred(source_model(), shaped(2048, 1536));
  EXPECT_DOUBLE_EQ(compute_us(wider.model, 100), 160);
  EXPECT_DOUBLE_EQ(wider.model.variants.front().compute.curve.valid_max_x, 1024.0 / 3);
  EXPECT_EQ(wider.model.variants.front().communication.curve.shape,
            source_model().variants.front().communication.curve.shape);
  EXPECT_EQ(wider.model.variants.front().compute.slowdown, 1.1);
  EXPECT_EQ(wider.reason, "transferred from n=1024 k=1024: a row has 3 x the FLOPs and 2 x the bytes");
}

TEST(Transfer, AsksEveryFamilyAtEqualFlops) {
  const std::vector<CostCurve::Shape> shapes{PiecewiseCurve{256, 100, -0.5, 40, 5, 38, 20},
                                             SegmentsCurve{1, {128}, {{0, 0, 64}, {0, 0.5, 0}}},
                                             InterpolatedCurve{{{64, 40}, {512, 300}, {1024, 700}}}};
  for (const auto& shape : shapes) {
    const CostModel model = with_shape(shape);
    const Transfer wider = transferred(model, shaped(2048, 1024));
    for (const double rows : {40.0, 100.0, 128.0, 200.0, 400.0})
      EXPECT_NEAR(compute_us(wider.model, rows), compute_us(model, 2 * rows), 1e-9)
          << model.variants.front().compute.curve.family();
  }
}

TEST(Transfer, ShortensTheWavesOfAWiderProduct) {
  // At n = 2048, 128 rows have the tiles that 256 rows, a wave, have at n = 1024. k doubles, so a wave takes twice as
  // long.
  const CostModel model = with_shape(StaircaseCurve{5, 0.1, 30, 256, "fitted"});
  const Transfer wider = transferred(model, shaped(2048, 2048));
  EXPECT_DOUBLE_EQ(compute_us(wider.model, 128), 5 + 0.1 * 4 * 128 + 60);
  EXPECT_DOUBLE_EQ(compute_us(wider.model, 129), 5 + 0.1 * 4 * 129 + 120);
}

/// A gather of two ranks on an H100, profiled from 128 to 4096 rows.
CostModel gpu_model() {
  CostModel model = source_model();
  model.op = {OpKind::AllGatherMatmul, 8192, 8192, 4096, DType::Bf16, 2};
  model.fingerprint = {{{"backend", "cuda"}, {"gpu_model", "NVIDIA H100 80GB HBM3"}, {"sm_count", "132"}}};
  auto& curve = model.variants.front().compute.curve;
  curve.shape = AffineCurve{8, 0.095};
  curve.valid_min_x = 128;
  curve.valid_max_x = 4096;
  return model;
}

TEST(Transfer, OnAGpuCountsWavesOfTiles) {
  const CostModel model = gpu_model();
  OpSpec target = model.op;
  target.n = 14336;
  target.k = 8192;
  const auto answered = transferred(model, target);
  const auto& curve = answered.model.variants.front().compute.curve;
  // Many rows take 3.5 times as long, as their FLOPs do. Few rows of so wide a product do not fill whole waves, so 300
  // rows take little more than 256.
  EXPECT_NEAR(curve.time_us(4096) / model.variants.front().compute.curve.time_us(4096), 3.5, 0.2);
  EXPECT_LT(curve.time_us(300) / curve.time_us(256), 1.25);
  EXPECT_TRUE(curve.validate()) << curve.validate().error().message;
  EXPECT_EQ(curve.valid_max_x, 4096);
  EXPECT_NEAR(curve.relative_interval, 0.02 + kWaveTransferSpread, 1e-12);
  EXPECT_TRUE(answered.reason.ends_with(", by waves of this GPU's tiles"));
}

TEST(Transfer, OnOtherGpusAndOfOtherTypesCountsFlops) {
  CostModel model = gpu_model();
  OpSpec target = model.op;
  target.k = 8192;
  model.fingerprint.fields["gpu_model"] = "NVIDIA A100";
  EXPECT_DOUBLE_EQ(compute_us(transferred(model, target).model, 100), 8 + 0.095 * 200);
  model = gpu_model();
  model.op.dtype = target.dtype = DType::F8E4m3;
  EXPECT_DOUBLE_EQ(compute_us(transferred(model, target).model, 100), 8 + 0.095 * 200);
}

TEST(Transfer, OnAGpuFewRowsCostAWave) {
  const CostModel model = gpu_model();
  OpSpec few = model.op;
  few.m = 64; // 32 rows of the cut axis, where 128 is the fewest that were measured
  const CostModel answered = with_waves(model, few);
  const auto &curve = answered.variants.front().compute.curve, &before = model.variants.front().compute.curve;
  EXPECT_GT(curve.time_us(32), 0.8 * before.time_us(128));
  EXPECT_NEAR(curve.time_us(1000), before.time_us(1000), 0.02 * before.time_us(1000));
  EXPECT_GT(curve.relative_interval, before.relative_interval + 0.1);
  EXPECT_EQ(curve.provenance(32), Provenance::Extrapolated);
  EXPECT_TRUE(answered.validate());
  CostModel host = model;
  host.fingerprint = {};
  EXPECT_EQ(with_waves(host, few), host);
}

TEST(Transfer, OnAGpuALineIsBentByWaves) {
  const CostModel model = gpu_model();
  const auto us = [&](const CostModel& asked, double rows) { return compute_us(asked, rows); };
  const CostModel answered = with_waves(model, model.op);
  for (const double rows : {128, 384, 512, 640, 1024, 4096})
    EXPECT_NEAR(us(answered, rows), us(model, rows), 0.25 * us(model, rows)) << rows;
  std::vector<double> steps_us; // what each further 128 rows add
  for (double rows = 256; rows <= 2048; rows += 128) steps_us.push_back(us(answered, rows) - us(answered, rows - 128));
  const auto [least_us, most_us] = std::ranges::minmax(steps_us);
  EXPECT_GT(most_us, 1.5 * std::max(0.0, least_us)) << "where another wave begins";
  EXPECT_EQ(answered.variants.front().compute.curve.relative_interval, 0.02);
  // A curve that is not a fitted line has its steps already and stays.
  CostModel stepped = model;
  stepped.variants.front().compute.curve.shape = StaircaseCurve{5, 0.05, 20, 512, "fitted"};
  EXPECT_EQ(with_waves(stepped, model.op), stepped);
}

TEST(Transfer, OnAGpuABentCurveIsLegalWhateverWasMeasured) {
  for (const double most : {1.0, 4.0, 48.0, 64.0, 65.0, 128.0, 8200.0, 1e6, 1e17})
    for (const double least : {1e-6, 0.5, most})
      for (const auto& [alpha_us, beta_us] : {std::pair{8.0, 0.095}, {0.0, 0.0}, {0.0, 1e9}, {100.0, 0.0}})
        for (const std::int64_t m : {2, 96, 16384}) {
          CostModel model = gpu_model();
          auto& curve = model.variants.front().compute.curve;
          curve.shape = AffineCurve{alpha_us, beta_us};
          curve.valid_min_x = std::min(least, most);
          curve.valid_max_x = most;
          if (!model.validate()) continue;
          OpSpec op = model.op;
          op.m = m;
          const CostModel answered = with_waves(model, op);
          EXPECT_TRUE(answered.validate()) << most << " " << least << " " << alpha_us << " " << m;
          op.n = 1000;
          EXPECT_TRUE(transfer(model, op, model.fingerprint)) << most << " " << least << " " << alpha_us << " " << m;
        }
}

TEST(Transfer, OnAGpuASingleSizeSaysNothingOfASlope) {
  CostModel model = gpu_model();
  auto& curve = model.variants.front().compute.curve;
  curve.shape = AffineCurve{0, 0.1};
  for (const double rows : {100, 333, 2048}) {
    curve.valid_min_x = curve.valid_max_x = rows;
    EXPECT_NEAR(compute_us(with_waves(model, model.op), rows), 0.1 * rows, 0.05 * rows);
  }
}

TEST(Transfer, OnAGpuSlicesAreMatmulsOfTheirOwn) {
  CostModel model = gpu_model();
  model.op = {OpKind::AllGatherMatmul, 4096, 2560, 8192, DType::Bf16, 4};
  OpSpec wider = model.op;
  wider.n = 5120;
  const auto ratio = [&](const char* slices) {
    CostModel sliced = model;
    if (*slices != 0) sliced.variants.front().variant.fields["slices"] = slices;
    return compute_us(transferred(sliced, wider).model, 512) / compute_us(sliced, 512);
  };
  // At n = 2560, one slice has 4 x 10 tiles, which leave most SMs idle; the tiles of three slices at once do not.
  EXPECT_LT(ratio("3"), 0.85 * ratio(""));
  EXPECT_LT(ratio("1+2"), ratio(""));
}

TEST(Transfer, OnAGpuAKernelOfAllBlocksTakesWholeWaves) {
  CostModel model = gpu_model();
  model.op = {OpKind::MatmulReduceScatter, 2112, 4096, 5504, DType::Bf16, 2}; // 18 rows of 16 tiles make 3 waves
  auto& variant = model.variants.front().variant = {std::string(kTileStoreVariant), {}};
  const auto tiles_of = [](double m, double columns) { return m / 128 * 4096 / columns; };
  const auto stretch = [&](std::int64_t m) {
    OpSpec op = model.op;
    op.m = m;
    return compute_us(with_waves(model, op), 65) / compute_us(model, 65);
  };
  EXPECT_DOUBLE_EQ(stretch(2112), 1); // a profile's times hold their own waves
  const double own = 3 * 132 / tiles_of(2112, 256);
  EXPECT_NEAR(stretch(130), 132 / tiles_of(130, 256) / own, 1e-9);   // 32 of 132 SMs have a tile
  EXPECT_NEAR(stretch(1300), 264 / tiles_of(1300, 256) / own, 1e-9); // 12 rows of 16 tiles make 2 waves
  variant.fields["tile"] = "256x128";                                // 256 columns are the default
  EXPECT_NEAR(stretch(130), 132 / tiles_of(130, 256) / own, 1e-9);
  variant.fields = {{"gemm_sms", "16"}}; // 32 tiles make two waves of 16
  EXPECT_NEAR(stretch(130), 32 / tiles_of(130, 256) / (18 * 16 / tiles_of(2112, 256)), 1e-9);
}

TEST(Transfer, OfAKernelOfAllBlocksCountsFlopsAndWholeWaves) {
  CostModel model = gpu_model();
  model.op = {OpKind::MatmulReduceScatter, 2112, 4096, 5504, DType::Bf16, 2};
  model.variants.front().variant = {std::string(kTileStoreVariant), {}};
  OpSpec target = model.op;
  target.n = 8192; // 18 rows of 32 tiles make 5 waves
  const CostModel answered = transferred(model, target).model;
  const double waves = (5 * 132 / 2.0) / (3 * 132); // the target has twice the tiles
  EXPECT_NEAR(compute_us(answered, 100), waves * (8 + 0.095 * 200), 1e-9);
  EXPECT_EQ(with_waves(answered, target), answered);
}

TEST(Transfer, OfEquallyNearWidthsTheNearestLengthAnswers) {
  std::vector<CostModel> models(3, source_model());
  models[0].op = shaped(1024, 1024, 512);
  models[1].op = shaped(1024, 1024, 8192);
  models[2].op = shaped(1024, 1024, 65536);
  const auto source_of = [&](std::int64_t m) {
    return transfer_from_nearest(models, shaped(2048, 1024, m), models[0].fingerprint).value().source.m;
  };
  EXPECT_EQ(source_of(512), 512);
  EXPECT_EQ(source_of(700), 512);
  EXPECT_EQ(source_of(4096), 8192); // 512 rows tell little about blocks of 4096
  EXPECT_EQ(source_of(20000), 65536);
}

TEST(MessageTimes, MessagesOfOtherModelsCorrectTheUncutCollective) {
  CostModel model = source_model(); // 20 us + 1 us a KB; a row has 4 KiB
  CostModel shorter = model, longer = model;
  shorter.op = shaped(2048, 512, 128); // 1 MiB, which takes twice as long as on the model's curve
  shorter.variants.front().communication.curve = affine(CurveAxis::Bytes, 20 + 20 + 1048.576, 1e-3);
  longer.op = shaped(1024, 4096, 4096); // 16 MiB, which takes as long as on the model's curve
  const MessageTimes messages = message_times(std::vector{model, shorter, longer}, model.op);
  const auto ratio = [&](std::int64_t m) {
    const OpSpec op = shaped(1024, 1024, m);
    return at_length(model, messages, op).variants.front().uncut_communication_us(op) /
           model.variants.front().uncut_communication_us(op);
  };
  EXPECT_NEAR(ratio(256), 2, 1e-9);
  EXPECT_NEAR(ratio(64), 2, 1e-9);             // a shorter message has the shortest one's ratio
  EXPECT_NEAR(ratio(512), std::sqrt(2), 1e-9); // 2 MiB, halfway to the model's own 4
  EXPECT_NEAR(ratio(2048), 1, 1e-9);           // between two messages that the curve gives right
  EXPECT_EQ(at_length(model, messages, model.op), model);
  CostModel analytic = model;
  analytic.variants.front().communication.curve.is_analytic = true;
  EXPECT_EQ(at_length(analytic, messages, shaped(1024, 1024, 256)), analytic);
  EXPECT_TRUE(message_times(std::vector{analytic}, model.op).by_variant.empty());
}

/// Starting and ending a run takes the same time for a short message as for a long one.
TEST(MessageTimes, OnAGpuTheLineThroughTwoGoesOnBeyondThem) {
  CostModel model = gpu_model();
  LaneCost& lane = model.variants.front().communication;
  lane.curve = affine(CurveAxis::Bytes, 0, 1e-6);
  lane.slowdown = 0.6;
  const OpSpec short_op = model.op;
  OpSpec long_op = model.op, shorter = model.op, longer = model.op;
  long_op.m *= 4, shorter.m /= 2, longer.m *= 8;
  const auto bytes_of = [](const OpSpec& op) {
    const OpTraits& traits = traits_of(op.kind);
    return static_cast<double>(traits.cut_axis_length(op) * traits.message_bytes_per_unit(op));
  };
  const auto known_us = [&](const OpSpec& op) { return 50 + 2e-6 * bytes_of(op); };
  const MessageTimes messages{short_op,
                              {{model.variants.front().variant.text(),
                                {{bytes_of(short_op), known_us(short_op)}, {bytes_of(long_op), known_us(long_op)}}}}};
  for (const OpSpec& op : {shorter, longer}) {
    const LaneCost answered = at_length(model, messages, op).variants.front().communication;
    EXPECT_NEAR(answered.curve.time_us(bytes_of(op)), known_us(op), 1e-6);
    const double saved_us = 0.4 * lane.curve.time_us(bytes_of(short_op));
    EXPECT_NEAR((1 - answered.slowdown) * known_us(op), std::min(saved_us, 0.95 * known_us(op)), 1e-6);
  }
}

/// Where the matmul is the longer lane, a race cannot tell how much of the collective a cut saves. So what other models
/// saved is taken.
TEST(MessageTimes, WhatOthersSaveHoldsForAModelThatCouldNotTell) {
  const auto model_of = [](double factor, const char* variant, std::int64_t m = 2048) {
    CostModel model = source_model();
    model.op = shaped(1024, 1024, m);
    model.variants.front().variant.name = variant;
    model.variants.front().communication.slowdown = factor;
    return model;
  };
  const auto communication_us = [](const CostModel& model) {
    return model.variants.front().uncut_communication_us(model.op);
  };
  const OpSpec asked = shaped(1024, 1024, 4096);
  const auto factor_of = [&](double own, const char* variant) {
    const std::vector models{model_of(own, variant, 1024), model_of(0.5, variant), model_of(0.8, variant),
                             model_of(0.75, variant), model_of(0.9999, variant)}; // which tells nothing
    return at_length(models.front(), message_times(models, models.front().op), asked)
        .variants.front()
        .communication.slowdown;
  };
  CostModel longer = model_of(1, "direct");
  const double saved_us = 0.25 * communication_us(longer); // what the factor 0.75, the median, saves
  longer.op = asked;
  const char* const shares = kTileStoreVariant.data();
  EXPECT_NEAR((1 - factor_of(1.02, shares)) * communication_us(longer), saved_us, 1e-9);
  EXPECT_NEAR((1 - factor_of(0.998, shares)) * communication_us(longer), saved_us, 1e-9);
  const std::vector two{model_of(1.02, shares, 1024), model_of(0.5, shares), model_of(0.8, shares)};
  const double of_two =
      at_length(two.front(), message_times(two, two.front().op), asked).variants.front().communication.slowdown;
  EXPECT_NEAR((1 - of_two) * communication_us(longer), 0.35 / 0.25 * saved_us, 1e-9); // of 0.5 and 0.2
  EXPECT_EQ(factor_of(1.3, shares), 1.3); // contention clearly above 1 is the model's own
  EXPECT_EQ(factor_of(1.02, "direct"), 1.02);
  const CostModel own = model_of(0.6, shares, 1024);
  EXPECT_NEAR((1 - factor_of(0.6, shares)) * communication_us(longer), 0.4 * communication_us(own), 1e-9);
}

TEST(MessageTimes, ASerialRunIsOfTheVariantThatIsTheFastestAtTheNearestMessage) {
  const auto model_of = [](std::int64_t m, const Variant& fastest) {
    CostModel model = gpu_model();
    model.op.m = m;
    model.variants.resize(3, model.variants.front());
    model.variants[1].variant = {"nccl", {}};
    model.variants[2].variant = {"direct", {}};
    model.serial = SerialRun{fastest, 100};
    return model;
  };
  const std::vector models{model_of(512, {"direct", {{"tile", "128x160"}}}), model_of(8192, {"nccl", {}})};
  const MessageTimes messages = message_times(models, models.back().op);
  const auto serial_at = [&](std::int64_t m) {
    OpSpec op = models.back().op;
    op.m = m;
    return at_length(models.back(), messages, op).serial->variant.text();
  };
  EXPECT_EQ(serial_at(256), "direct"); // without the tile, which suited 512 rows
  EXPECT_EQ(serial_at(1024), "direct");
  EXPECT_EQ(serial_at(4096), "nccl");
  EXPECT_EQ(serial_at(8192), "nccl");
}

TEST(Transfer, WidensTheIntervalByTheDistance) {
  const Transfer twice = transferred(source_model(), shaped(1024, 2048));
  // n k doubles once. The aspect n / k halves, which counts as log2(2) / 2, half a doubling.
  EXPECT_DOUBLE_EQ(twice.model.variants.front().compute.curve.relative_interval, 0.02 + 1.5 * kComputeTransferSpread);
  EXPECT_DOUBLE_EQ(twice.model.variants.front().communication.curve.relative_interval,
                   0.03 + kCommunicationTransferSpread);
  const Transfer near = transferred(source_model(), shaped(1040, 1024));
  EXPECT_DOUBLE_EQ(near.model.variants.front().compute.curve.relative_interval, 0.02 + kComputeTransferSpread);
}

TEST(Transfer, IsNoSurerThanTheRacesThatCorrectedItsModel) {
  CostModel model = source_model();
  const OpSpec wider = shaped(2048, 1024);
  const auto width_of = [&](const OpSpec& op) {
    const CostModel moved = transferred(model, op).model;
    const Plan plan = predict_cut(op, moved, {{256, 768}}).value();
    const Plan told = with_race_intervals(race_intervals(moved, plan), plan);
    return (told.makespan.high_us - told.makespan.low_us) / told.makespan.us;
  };
  const double without_races = width_of(wider);
  model.anchored_interval = 0.4;
  model.variants.front().open_steps = {{.compute_slowdown = 0.1}};
  EXPECT_GT(width_of(wider), without_races);
  EXPECT_GT(width_of(wider), width_of(model.op));
}

TEST(Transfer, RefusesAnotherMachine) {
  Fingerprint other = source_model().fingerprint;
  other.fields["cpu_model"] = "another";
  const auto refused = transfer(source_model(), shaped(2048, 1024), other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Stale);
}

TEST(Transfer, RefusesAnotherKindTypeOrRankCount) {
  OpSpec target = shaped(2048, 1024);
  target.dtype = DType::F16;
  EXPECT_EQ(transfer(source_model(), target, source_model().fingerprint).error().code, ErrorCode::OutOfRange);
  target = shaped(2048, 1024);
  target.world_size = 4;
  EXPECT_EQ(transfer(source_model(), target, source_model().fingerprint).error().code, ErrorCode::OutOfRange);
}

TEST(Transfer, BetweenEmbeddingTablesNeedsTheSameRowsOfThem) {
  CostModel source = source_model();
  source.op.kind = OpKind::EmbeddingAllToAll;
  source.op.tables = {.table_count = 4, .row_count = 1000};
  OpSpec target = source.op;
  target.n *= 2;
  EXPECT_TRUE(transfer(source, target, source.fingerprint).ok());
  target.tables->row_count = 2000;
  EXPECT_EQ(transfer(source, target, source.fingerprint).error().code, ErrorCode::OutOfRange);
}

TEST(Transfer, RefusesWhatLiesTooFar) {
  for (const auto& [n, k, field] :
       {std::tuple{1024 * 17, 1024, "n"}, std::tuple{1024, 1024 * 17, "k"}, std::tuple{1024 * 8, 1024 * 4, "n k"},
        std::tuple{1024, 64 - 1, "k"}, std::tuple{32, 1024, "n"}}) {
    const auto refused = transfer(source_model(), shaped(n, k), source_model().fingerprint);
    ASSERT_FALSE(refused.ok()) << n << " " << k;
    EXPECT_EQ(refused.error().code, ErrorCode::OutOfRange);
    EXPECT_EQ(refused.error().field, field);
  }
}

/// A model of 16 rows, which are cut along n: 10 us + 0.5 us a column.
CostModel column_model() {
  CostModel model = source_model();
  model.op = shaped(1024, 1024, 16);
  model.variants.front().compute.curve.axis = CurveAxis::Columns;
  return model;
}

TEST(Transfer, OfColumnsIsTheModelItselfForAnotherNAndScalesWithK) {
  EXPECT_TRUE(transferred(column_model(), shaped(9999, 1024, 16)).is_same);
  // k doubles, so a column takes 1 us, whatever n is: 10 + 100 = 110.
  const Transfer deeper = transferred(column_model(), shaped(40000, 2048, 16));
  EXPECT_DOUBLE_EQ(compute_us(deeper.model, 100), 110);
  EXPECT_EQ(deeper.reason, "transferred from k=1024: a column has 2 x the FLOPs and 1 x the bytes");
}

TEST(Transfer, NeverTakesRowsForColumnsNorColumnsOfAnotherM) {
  for (const auto& [model, target] :
       {std::pair{source_model(), shaped(1024, 1024, 16)}, std::pair{column_model(), shaped(1024, 1024, 4096)},
        std::pair{column_model(), shaped(1024, 1024, 17)}}) {
    const auto refused = transfer(model, target, model.fingerprint);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::OutOfRange);
    EXPECT_EQ(refused.error().field, "m");
  }
}

TEST(Transfer, RefusesToCrossTheLengthBelowWhichFlopsDoNotDecide) {
  CostModel narrow = source_model();
  narrow.op = shaped(128, 128);
  const auto refused = transfer(narrow, shaped(63, 128), narrow.fingerprint);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("across 64"), std::string::npos);
}

TEST(Transfer, RefusesAnInvalidTargetOrModel) {
  EXPECT_EQ(transfer(source_model(), shaped(0, 1024), source_model().fingerprint).error().code, ErrorCode::InvalidSpec);
  CostModel empty = source_model();
  empty.variants.clear();
  EXPECT_EQ(transfer(empty, kSource, empty.fingerprint).error().field, "model.variants");
}

TEST(TransferFromNearest, PicksTheNearestAndSkipsWhatIsUnsound) {
  CostModel near = source_model(), far = source_model(), foreign = source_model();
  near.op = shaped(1024, 2048);
  far.op = shaped(512, 512);
  foreign.op = shaped(1536, 2048);
  foreign.fingerprint.fields["cpu_model"] = "another";
  const std::vector models{far, foreign, near};
  const auto chosen = transfer_from_nearest(models, shaped(1536, 2048), near.fingerprint);
  EXPECT_EQ(chosen.value().source, near.op);
  EXPECT_EQ(transfer_from_nearest({}, kSource, near.fingerprint).error().code, ErrorCode::NotFound);
  EXPECT_EQ(transfer_from_nearest(std::vector{foreign}, kSource, near.fingerprint).error().code, ErrorCode::Stale);
}

TEST(AsTransferred, MarksThePlanExtrapolatedWithTheReason) {
  const Transfer wider = transferred(source_model(), shaped(1024, 1100));
  const PlanOptions options;
  const Plan plan = as_transferred(make_plan(wider.model.op, wider.model, options).value(), wider);
  EXPECT_EQ(plan.makespan.provenance, Provenance::Extrapolated);
  EXPECT_EQ(plan.makespan.reason, wider.reason);
  const Transfer same = transferred(source_model(), kSource);
  const Plan own = make_plan(same.model.op, same.model, options).value();
  EXPECT_EQ(as_transferred(own, same), own);
}

TEST(LeaveOneShapeOut, FindsNoErrorWhereRowsCostTheirFlops) {
  std::vector<CostModel> models{source_model()};
  models.push_back(transferred(models.front(), shaped(2048, 1024)).model);
  models.push_back(transferred(models.front(), shaped(1024, 512)).model);
  const auto errors = testing::leave_one_shape_out(models);
  ASSERT_EQ(errors.size(), 6u); // two lanes of three shapes
  for (const auto& error : errors) {
    EXPECT_NEAR(error.worst_relative, 0, 1e-9);
    EXPECT_DOUBLE_EQ(error.covered, 1);
    EXPECT_FALSE(error.source.n == error.target.n && error.source.k == error.target.k);
  }
}

TEST(LeaveOneShapeOut, ShowsAShapeThatCostsMoreThanItsFlops) {
  std::vector<CostModel> models{source_model(), transferred(source_model(), shaped(2048, 1024)).model};
  // The second shape takes 1.5 times what its FLOPs say. So the first is predicted 1.5 times too long, and the second
  // 1.5 times too short.
  models[1].variants.front().compute.curve = scaled(models[1].variants.front().compute.curve, 1.5);
  const auto errors = testing::leave_one_shape_out(models);
  ASSERT_EQ(errors.size(), 4u);
  EXPECT_NEAR(errors[0].median_relative, 0.5, 1e-9);
  EXPECT_NEAR(errors[2].median_relative, 1 - 1 / 1.5, 1e-9);
  EXPECT_DOUBLE_EQ(errors[0].covered, 0);
}

RC_GTEST_PROP(Transfer, AnswersOrRefusesButNeverNarrows, ()) {
  const CostModel model = source_model();
  const auto length = rc::gen::inRange<std::int64_t>(1, 40000);
  const OpSpec target = shaped(*length, *length, *rc::gen::inRange<std::int64_t>(1, 5000));
  const auto answer = transfer(model, target, model.fingerprint);
  if (!answer) {
    RC_ASSERT(!answer.error().message.empty());
    return;
  }
  RC_ASSERT(answer.value().model.validate().ok());
  RC_ASSERT(answer.value().model.op == target);
  const auto& before = model.variants.front();
  const auto& after = answer.value().model.variants.front();
  RC_ASSERT(after.compute.curve.relative_interval >= before.compute.curve.relative_interval);
  RC_ASSERT(after.communication.curve.relative_interval >= before.communication.curve.relative_interval);
  RC_ASSERT(make_plan(target, answer.value().model, {}).ok());
}

} // namespace
} // namespace mc2::planner::transfer_test
