#include "gpu_matmul.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/plan_ranges.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/transfer.hpp"
#include "support/models.hpp"

namespace mc2::planner::gpu_matmul_test {
namespace {

const Fingerprint kH100{{{"gpu_model", "NVIDIA H100 80GB HBM3"}, {"sm_count", "132"}}};
const Fingerprint kH200{{{"gpu_model", "NVIDIA H200"}, {"sm_count", "132"}}};

/// |model / measured - 1| of the matmuls of data/gpu/matmuls_h100.csv: of those that had all SMs, or of the others.
std::vector<double> errors_of_measured(bool has_all_sms) {
  const GpuRates rates = gpu_rates(kH100, testing::all_reduce_op(4096, 8192, 4096, DType::Bf16, 2)).value();
  std::ifstream file(MC2_SOURCE_DIR "/data/gpu/matmuls_h100.csv");
  std::vector<double> errors;
  for (std::string line; std::getline(file, line);) {
    double rows = 0, n = 0, k = 0, us = 0;
    int sm_count = 0;
    if (std::sscanf(line.c_str(), "%lf,%lf,%lf,%d,%lf", &rows, &n, &k, &sm_count, &us) != 5) continue;
    if ((sm_count == 0) != has_all_sms) continue;
    const MatmulTimes times(rates, n, k, sm_count == 0 ? rates.sm_count : sm_count);
    errors.push_back(std::abs(times.us(rows, 1) / us - 1));
  }
  std::ranges::sort(errors);
  return errors;
}

TEST(GpuMatmul, IsNearToWhatWasMeasured) {
  const auto errors = errors_of_measured(true);
  ASSERT_EQ(errors.size(), 1680U);
  EXPECT_LT(errors[errors.size() / 2], 0.035);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.14);
}

/// A matmul of data/gpu/library_matmuls_h200.csv, and what the library offers for it.
struct Offer {
  std::int64_t n = 0, k = 0;
  MatmulCall call;
  std::vector<MatmulTile> tiles;
  std::vector<double> us;
};

std::vector<Offer> measured_offers() {
  std::vector<Offer> offers;
  std::ifstream file(MC2_SOURCE_DIR "/data/gpu/library_matmuls_h200.csv");
  for (std::string line; std::getline(file, line);) {
    int rows = 0, n = 0, k = 0, batch = 0, sm_count = 0, k_parts = 0;
    double us = 0;
    std::array<char, 16> name{};
    const char* const format = "%d,%d,%d,%d,%d,%15[^,],%d,%lf";
    if (std::sscanf(line.c_str(), format, &rows, &n, &k, &batch, &sm_count, name.data(), &k_parts, &us) != 8) continue;
    MatmulTile tile{.k_parts = k_parts};
    std::sscanf(name.data(), "%dx%d", &tile.columns, &tile.rows); // "other" stays 0 x 0
    const MatmulCall call{rows, batch, sm_count};
    const bool is_next = !offers.empty() && offers.back().n == n && offers.back().k == k &&
                         offers.back().call.rows == rows && offers.back().call.batch_count == batch &&
                         offers.back().call.sm_count == sm_count;
    if (!is_next) offers.push_back({n, k, call, {}, {}});
    offers.back().tiles.push_back(tile);
    offers.back().us.push_back(us);
  }
  return offers;
}

TEST(GpuMatmul, IsNearToWhatWasMeasuredWithEachTile) {
  const OpSpec op = testing::all_reduce_op(4096, 8192, 4096, DType::Bf16, 2);
  const GpuRates rates = gpu_rates(kH200, op).value();
  std::vector<double> errors;
  for (const Offer& offer : measured_offers())
    for (std::size_t i = 0; i < offer.tiles.size(); ++i) {
      if (offer.tiles[i].rows == 0 || offer.call.batch_count > 1) continue;
      const int sm_count = offer.call.sm_count > 0 ? offer.call.sm_count : rates.sm_count;
      const MatmulTimes times(rates, static_cast<double>(offer.n), static_cast<double>(offer.k), sm_count,
                              offer.tiles[i]);
      errors.push_back(std::abs(times.us(static_cast<double>(offer.call.rows), 1) / offer.us[i] - 1));
    }
  ASSERT_GT(errors.size(), 8000U);
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 0.025);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.085);
}

TEST(GpuMatmul, TheTileThatIsTakenIsFasterThanTheLibrarysChoiceAndPredicted) {
  std::vector<double> errors;
  double gain = 0;
  for (const Offer& offer : measured_offers()) {
    if (offer.call.batch_count > 1) continue;
    OpSpec op = testing::all_reduce_op(4096, 0, 0, DType::Bf16, 2);
    op.n = offer.n, op.k = offer.k;
    const GpuRates rates = gpu_rates(kH200, op).value();
    const std::size_t taken = choose_tile(kH200, op, offer.call, offer.tiles);
    const int sm_count = offer.call.sm_count > 0 ? offer.call.sm_count : rates.sm_count;
    const MatmulTimes times(rates, static_cast<double>(offer.n), static_cast<double>(offer.k), sm_count);
    errors.push_back(std::abs(times.us(static_cast<double>(offer.call.rows), 1) / offer.us[taken] - 1));
    gain += std::log(offer.us.front() / offer.us[taken]);
  }
  ASSERT_EQ(errors.size(), 2040U);
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 0.03);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.1);
  EXPECT_GT(gain / static_cast<double>(errors.size()), 0.005);
}

// Tiles of 16 x 64 load far more of A and B for each product than those of 128 x 256.
TEST(GpuMatmul, TheLibrarysChoiceIsKeptUnlessAnotherIsKnownToBeFaster) {
  const OpSpec op = testing::all_reduce_op(4096, 8192, 4096, DType::Bf16, 2);
  const MatmulCall call{.rows = 2048};
  const std::vector<MatmulTile> slow_first{{16, 64}, {128, 256}};
  EXPECT_EQ(choose_tile(kH200, op, call, slow_first), 1U);
  EXPECT_EQ(choose_tile(kH200, op, call, std::vector<MatmulTile>{{128, 256}, {16, 64}}), 0U);
  EXPECT_EQ(choose_tile(kH200, op, call, std::vector<MatmulTile>{{128, 256}, {256, 128}}), 0U); // alike
  EXPECT_EQ(choose_tile(kH200, op, call, std::vector<MatmulTile>{{}, {128, 256}}), 0U);
  EXPECT_EQ(choose_tile(kH200, op, call, std::vector<MatmulTile>{{16, 64}, {}}), 0U);
  EXPECT_EQ(choose_tile({}, op, call, slow_first), 0U);
  OpSpec single = op;
  single.dtype = DType::F32;
  EXPECT_EQ(choose_tile(kH200, single, call, slow_first), 0U);
}

// 64 x 1024 is 16 tiles of 64 x 64, which leave most SMs idle; four parts of k keep 64 of them busy.
TEST(GpuMatmul, FewTilesAreMultipliedInPartsOfK) {
  const GpuRates rates = gpu_rates(kH200, testing::all_reduce_op(4096, 1024, 16384, DType::Bf16, 2)).value();
  const double whole_us = MatmulTimes(rates, 1024, 16384, 132, {64, 64}).us(64, 1);
  EXPECT_LT(MatmulTimes(rates, 1024, 16384, 132, {64, 64, 4}).us(64, 1), 0.5 * whole_us);
  EXPECT_LT(MatmulTimes(rates, 1024, 16384, 132).us(64, 1), 0.5 * whole_us);
}

TEST(GpuMatmul, IsNearToWhatWasMeasuredOfSeveralExperts) {
  OpSpec op = testing::all_reduce_op(4096, 8192, 4096, DType::Bf16, 2);
  op.kind = OpKind::GroupedMatmulAllReduce;
  op.experts = {.count = 8, .top_k = 2};
  const GpuRates rates = gpu_rates(kH200, op).value();
  std::ifstream file(MC2_SOURCE_DIR "/data/gpu/grouped_matmuls_h200.csv");
  std::vector<double> errors;
  for (std::string line; std::getline(file, line);) {
    double experts = 0, rows = 0, row_tiles = 0, n = 0, k = 0, us = 0;
    const char* const format = "%*[a-z],%*d,%lf,%lf,%lf,%lf,%lf,%lf";
    if (std::sscanf(line.c_str(), format, &experts, &rows, &row_tiles, &n, &k, &us) != 6) continue;
    const MatmulTimes times(rates, n, k, rates.sm_count);
    errors.push_back(std::abs(times.us(ExpertRows{rows, row_tiles, experts}) / us - 1));
  }
  std::ranges::sort(errors);
  ASSERT_EQ(errors.size(), 1080U);
  EXPECT_LT(errors[errors.size() / 2], 0.04);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.14);
}

// A choice falls on expert e of 4 with the probability sqrt((e + 1) / 4) - sqrt(e / 4): 0.5, 0.21, 0.16, 0.13.
TEST(GpuMatmul, KnowsWhatChoicesMakeOfRows) {
  const ExpertRows many = rows_of_choices({.count = 4, .top_k = 2}, 1000);
  EXPECT_DOUBLE_EQ(many.rows, 2000);
  EXPECT_NEAR(many.row_tiles, 8 + 4 + 3 + 3, 1e-9); // tiles of 128 rows; the experts have 1000, 414, 318 and 268 rows
  EXPECT_NEAR(many.experts, 4, 1e-9);
  const ExpertRows one = rows_of_choices({.count = 4, .top_k = 1}, 1); // an expert is chosen with 1 - exp(-rows)
  EXPECT_NEAR(one.experts, 4 - std::exp(-0.5) - std::exp(-0.2071) - std::exp(-0.1589) - std::exp(-0.134), 1e-3);
  EXPECT_DOUBLE_EQ(one.row_tiles, one.experts);
  const ExpertRows of_many = rows_of_choices({.count = 1'000'000, .top_k = 8}, 4096); // summed in steps of many experts
  EXPECT_NEAR(of_many.experts, 32'000, 1000); // nearly every choice finds another expert
}

// The rows of a pair of ranks are ordered by expert. So a quarter of them reads one of four matrices, each of 117 MB,
// which takes 30 us.
TEST(GpuMatmul, ABlockOfFewExpertsReadsTheirMatricesOnly) {
  OpSpec op = testing::all_reduce_op(512, 14336, 4096, DType::Bf16, 2);
  op.kind = OpKind::AllToAllMatmul;
  op.experts_per_rank = 4;
  const BlockWaves waves(gpu_rates(kH100, op).value(), op, {});
  EXPECT_GT(waves.us(256), 3.5 * waves.us(64));
  EXPECT_LT(waves.us(65), 2.1 * waves.us(64)); // reads the matrices of two experts
  EXPECT_NEAR(waves.at_once_us(256), waves.us(256), 1e-9);
  for (const std::int64_t experts : {3, 16}) {
    op.experts_per_rank = experts;
    op.m = 2 * experts * 130;
    const BlockWaves of_many(gpu_rates(kH100, op).value(), op, {});
    for (double rows = 1; rows < 130.0 * static_cast<double>(experts); ++rows)
      ASSERT_LE(of_many.us(rows), of_many.us(rows + 1)) << rows << " rows of " << experts;
  }
}

// Each of 8 ranks has 16 rows for each of 8 experts. Uncut, an expert's 128 rows lie together.
TEST(GpuMatmul, WhatRanksSendToAnExpertIsMultipliedTogether) {
  OpSpec op = testing::all_reduce_op(1024, 7168, 2048, DType::Bf16, 8);
  op.kind = OpKind::MatmulAllToAll;
  op.experts_per_rank = 8;
  const BlockWaves waves(gpu_rates(kH100, op).value(), op, {});
  EXPECT_NEAR(waves.us(128), waves.at_once_us(1024), 1e-9);
  EXPECT_GT(waves.us(64), 2 * waves.us(16)); // reads the matrices of four experts, not of one
}

// The profile has 256 rows for each of 32 experts in a pair, so a block of 128 rows is of one expert. The question has
// 4 rows for each, so such a block is of all 32.
TEST(GpuMatmul, FewerRowsOfAnExpertMakeABlockOfMoreExperts) {
  OpSpec profiled = testing::all_reduce_op(65536, 4096, 7168, DType::Bf16, 8), asked = profiled;
  profiled.kind = asked.kind = OpKind::MatmulAllToAll;
  profiled.experts_per_rank = asked.experts_per_rank = 32;
  asked.m = 1024;
  CostModel model = testing::model_of(profiled, testing::affine(CurveAxis::Rows, 20, 0.6),
                                      testing::affine(CurveAxis::Bytes, 4, 1e-5), 1, 1);
  model.fingerprint = kH200;
  CostCurve& curve = model.variants.front().compute.curve;
  curve.valid_min_x = 128, curve.valid_max_x = 8192;
  const double before_us = curve.time_us(128);
  EXPECT_GT(with_waves(model, asked).variants.front().compute.curve.time_us(128), 3 * before_us);
  model.variants.front().variant.fields["tile"] = "128x128"; // the library multiplies this tile, expert by expert
  EXPECT_DOUBLE_EQ(with_waves(model, asked).variants.front().compute.curve.time_us(128), before_us);
}

// 640 x 2176 is 85 tiles of 128 x 128 and 896 x 2176 is 119: 128 SMs multiply either in one wave.
TEST(GpuMatmul, AVariantsNamedTileIsWhatItIsMultipliedBy) {
  const OpSpec op = testing::all_reduce_op(5120, 2176, 5760, DType::Bf16, 4);
  const Variant any{"persistent", {{"gemm_sms", "128"}}};
  Variant named = any;
  named.fields["tile"] = "128x128";
  const GpuRates rates = gpu_rates(kH100, op).value();
  const BlockWaves by_named(rates, op, named);
  EXPECT_NEAR(by_named.us(640), by_named.us(896), 0.05 * by_named.us(896));
  EXPECT_GT(by_named.us(640), 1.15 * BlockWaves(rates, op, any).us(640));
  named.fields["tile"] = "128x256"; // a tile of 256 rows
  EXPECT_NEAR(BlockWaves(rates, op, named).us(300), BlockWaves(rates, op, named).us(512), 0.1 * by_named.us(512));
  for (const char* other : {"", "x", "128x", "x128", "wide"}) {
    named.fields["tile"] = other;
    EXPECT_EQ(BlockWaves(rates, op, named).us(640), BlockWaves(rates, op, any).us(640)) << other;
  }
}

// 8 tokens that choose 8 of 128 experts each read about 40 experts' matrices; 64 tokens read nearly all.
TEST(GpuMatmul, FewTokensOfManyExpertsWaitForTheirMatrices) {
  OpSpec op = testing::all_reduce_op(4096, 4096, 1536, DType::Bf16, 2);
  op.kind = OpKind::GroupedMatmulAllReduce;
  op.experts = {.count = 128, .top_k = 8};
  const BlockWaves waves(gpu_rates(kH100, op).value(), op, {});
  EXPECT_GT(waves.us(8), 0.25 * waves.us(64));
  EXPECT_LT(waves.us(128), 1.2 * waves.us(64));
  for (double rows = 1; rows < 5000; rows *= 1.1) EXPECT_LE(waves.us(rows), waves.us(rows * 1.1)) << rows;
}

/// Times in us of the matmuls of data/gpu/matmuls_h100.csv that had all SMs: by (n, k), then by rows.
std::map<std::pair<double, double>, std::map<double, double>> measured_us() {
  std::map<std::pair<double, double>, std::map<double, double>> result;
  std::ifstream file(MC2_SOURCE_DIR "/data/gpu/matmuls_h100.csv");
  for (std::string line; std::getline(file, line);) {
    double rows = 0, n = 0, k = 0, us = 0;
    int sm_count = 0;
    if (std::sscanf(line.c_str(), "%lf,%lf,%lf,%d,%lf", &rows, &n, &k, &sm_count, &us) == 5 && sm_count == 0)
      result[{n, k}][rows] = us;
  }
  return result;
}

/// The line with the least sum of squared relative errors.
AffineCurve fitted_line(const std::vector<std::pair<double, double>>& points) {
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0;
  for (const auto& [x, us] : points) {
    const double one = 1 / us, slope = x / us;
    aa += one * one, ab += one * slope, bb += slope * slope, a += one, b += slope;
  }
  const double determinant = aa * bb - ab * ab;
  const AffineCurve line{(a * bb - b * ab) / determinant, (aa * b - ab * a) / determinant};
  return line.alpha_us >= 0 ? line : AffineCurve{0, b / bb};
}

TEST(GpuMatmul, BendsALineThroughSomeSizesTowardsTheOthers) {
  std::vector<double> plain, bent;
  for (const auto& [shape, us_of] : measured_us()) {
    OpSpec op = testing::all_reduce_op(1024, 0, 0, DType::Bf16, 2);
    op.n = static_cast<std::int64_t>(shape.first), op.k = static_cast<std::int64_t>(shape.second);
    for (const std::int64_t most : {1024, 4096}) {
      op.m = most;
      std::vector<std::pair<double, double>> profiled;
      for (const double rows : {128, 256, 512, 768, 1024, 2048, 4096})
        if (rows <= static_cast<double>(most) && us_of.contains(rows)) profiled.emplace_back(rows, us_of.at(rows));
      CostModel model = testing::model_of(op, testing::affine(CurveAxis::Rows, 0, 1, static_cast<double>(most)),
                                          testing::affine(CurveAxis::Bytes, 4, 1e-5));
      model.fingerprint = kH100;
      CostCurve& curve = model.variants.front().compute.curve;
      curve.shape = fitted_line(profiled);
      curve.valid_min_x = 128;
      for (const auto& [rows, us] : us_of) {
        const bool is_profiled = std::ranges::find(profiled, std::pair(rows, us)) != profiled.end();
        if (rows < 96 || rows > 2 * static_cast<double>(most) || is_profiled) continue;
        op.m = static_cast<std::int64_t>(rows);
        plain.push_back(std::abs(curve.time_us(rows) / us - 1));
        bent.push_back(std::abs(with_waves(model, op).variants.front().compute.curve.time_us(rows) / us - 1));
      }
    }
  }
  std::ranges::sort(plain);
  std::ranges::sort(bent);
  const auto at = [](const std::vector<double>& errors, double share) {
    return errors[static_cast<std::size_t>(share * static_cast<double>(errors.size()))];
  };
  RecordProperty("sizes", static_cast<int>(bent.size()));
  RecordProperty("straight", std::to_string(at(plain, 0.5)) + " " + std::to_string(at(plain, 0.9)));
  RecordProperty("bent", std::to_string(at(bent, 0.5)) + " " + std::to_string(at(bent, 0.9)));
  EXPECT_LT(at(bent, 0.5), 0.75 * at(plain, 0.5));
  EXPECT_LT(at(bent, 0.9), 0.9 * at(plain, 0.9));
}

TEST(GpuMatmul, OnPartOfTheSmsIsNearToWhatWasMeasured) {
  const auto errors = errors_of_measured(false);
  ASSERT_EQ(errors.size(), 360U);
  EXPECT_LT(errors[errors.size() / 2], 0.03);
}

TEST(GpuMatmul, NeverFallsWithRowsAndTakesLongerOnFewerSms) {
  const GpuRates rates = gpu_rates(kH100, testing::all_reduce_op(4096, 8192, 4096, DType::F16, 2)).value();
  double before_us = 0;
  for (double rows = 1; rows < 20'000; rows = std::ceil(rows * 1.07)) {
    const double us = MatmulTimes(rates, 5504, 4096, 132).us(rows, 1);
    EXPECT_GE(us, before_us) << rows;
    EXPECT_GE(MatmulTimes(rates, 5504, 4096, 66).us(rows, 1), us) << rows;
    before_us = us;
  }
}

TEST(GpuMatmul, AllRowsAtOnceCostHalfOfFewRowsTwice) {
  OpSpec op{OpKind::AllGatherMatmul, 64, 14336, 8192, DType::Bf16, 2};
  EXPECT_NEAR(serial_compute_ratio(op, kH100), 0.5, 0.02);
  op.m = 16384;
  EXPECT_NEAR(serial_compute_ratio(op, kH100), 1, 0.05);
  EXPECT_EQ(serial_compute_ratio(op, {}), 1);
  op.kind = OpKind::MatmulReduceScatter;
  EXPECT_EQ(serial_compute_ratio(op, kH100), 1);
}

TEST(GpuMatmul, ASerialRunsMatmulIsCarriedByWavesFromWhereItWasMeasured) {
  OpSpec op{OpKind::AllGatherMatmul, 1024, 2048, 8192, DType::Bf16, 4};
  CostModel model = testing::model_of(op, testing::affine(CurveAxis::Rows, 30, 0.1),
                                      testing::affine(CurveAxis::Bytes, 4, 1e-5), 1, 1);
  const Variant variant = model.variants.front().variant;
  EXPECT_EQ(with_serial_run(model, {variant, 50}), model); // nothing is known of the model's machine
  model.fingerprint = kH100;
  EXPECT_EQ(with_serial_run(model, {{"another", {}}, 50}), model);
  model = with_serial_run(model, {variant, 50});
  EXPECT_DOUBLE_EQ(predict_cut(op, model, uncut(op)).value().compute_us, 50);
  const GpuRates rates = gpu_rates(kH100, op).value();
  const auto at_once_us = [&](const OpSpec& of) {
    return MatmulTimes(rates, static_cast<double>(of.n), static_cast<double>(of.k), 132)
        .us(static_cast<double>(of.m), 1);
  };
  OpSpec other = op;
  other.m = 512;
  EXPECT_NEAR(predict_cut(other, model, uncut(other)).value().compute_us, 50 * at_once_us(other) / at_once_us(op),
              1e-9);
  other.n = 6144, other.k = 2176;
  const Transfer there = transfer(model, other, kH100).value();
  const Plan plan = predict_cut(other, there.model, uncut(other)).value();
  EXPECT_NEAR(plan.compute_us, 50 * at_once_us(other) / at_once_us(op), 1e-9);
  EXPECT_NEAR(scaled(model, 1.5, 1).serial->compute_us, 75, 1e-9);
  model.serial->compute_us = -1;
  EXPECT_EQ(model.validate().error().field, "serial.compute_us");
}

/// What curves say of another variant's serial run is a guess, and the smallest of many guesses is too small.
TEST(GpuMatmul, SerialIsOfTheVariantWhoseSerialRunWasMeasured) {
  const OpSpec op{OpKind::MatmulReduceScatter, 512, 8192, 2048, DType::Bf16, 4};
  const CostCurve bytes = testing::affine(CurveAxis::Bytes, 30, 1e-7);
  CostModel model = testing::model_of(op, testing::affine(CurveAxis::Rows, 40, 0.1), bytes, 1, 1);
  model.fingerprint = kH100;
  model.variants.push_back({{"guessed", {}}, {testing::affine(CurveAxis::Rows, 30, 0.1)}, {bytes}});
  EXPECT_EQ(make_plan(op, model, {}).value().variant.name, "guessed");
  const Variant measured = model.variants.front().variant;
  model = with_serial_run(model, {measured, 60});
  const Plan plan = make_plan(op, model, {}).value();
  EXPECT_EQ(plan.variant, measured);
  EXPECT_EQ(plan.schedule, Schedule::Serial);
  EXPECT_DOUBLE_EQ(plan.makespan.us, plan.serial_us);
  EXPECT_DOUBLE_EQ(plan.compute_us, 60);
  OpSpec other = op;
  other.m = 640; // no cut
  EXPECT_EQ(make_plan(other, model, {}).value().variant, measured);
  CostModel tiled = model; // a tile suits one size
  tiled.variants.push_back(tiled.variants.front());
  tiled.variants.back().variant.fields["tile"] = "128x160";
  tiled = with_serial_run(tiled, {tiled.variants.back().variant, 60});
  EXPECT_EQ(make_plan(op, tiled, {}).value().variant, tiled.variants.back().variant);
  EXPECT_EQ(make_plan(other, tiled, {}).value().variant, measured);
  const PlanRanges ranges = plan_ranges(op, 512, 512, model, default_options_on(model.fingerprint)).value();
  EXPECT_EQ(plan_at(ranges, 512).value().variant, measured);
}

TEST(GpuMatmul, BlocksMultiplyNoFasterThanAllRowsAtOnce) {
  const OpSpec op{OpKind::AllGatherMatmul, 5632, 7936, 3584, DType::Bf16, 4};
  CostModel model = testing::model_of(op, testing::affine(CurveAxis::Rows, 10, 0.15),
                                      testing::affine(CurveAxis::Bytes, 4, 1e-6), 1, 1);
  model.fingerprint = kH100;
  const VariantCost alone = model.variants.front();
  model.variants.push_back({{"slow", {}}, {testing::affine(CurveAxis::Rows, 10, 0.5)}, alone.communication});
  const CostModel curves = at_length(model, {}, op);
  const double uncut_us = curves.variants.front().uncut_compute_us(op);
  model = with_serial_run(model, {alone.variant, 1.1 * uncut_us});
  const CostModel bound = at_length(model, {}, op);
  const double least_us = bound.variants.front().uncut_compute_us(op);
  EXPECT_GT(least_us, 1.1 * uncut_us); // the own shard and the others' rows are two launches
  EXPECT_LT(least_us, 1.3 * uncut_us);
  EXPECT_EQ(bound.variants[1], curves.variants[1]); // this variant was slower than the bound already
  const CostModel restricted = at_length(restricted_to(alone.variant, model).value(), {}, op);
  EXPECT_EQ(restricted.variants.front(), bound.variants.front());
}

TEST(GpuMatmul, FewRowsOfAGatherAreNotMultipliedTwice) {
  const OpSpec op{OpKind::AllGatherMatmul, 64, 14336, 8192, DType::Bf16, 2};
  CostModel model = testing::model_of(op, testing::affine(CurveAxis::Rows, 80, 0.2),
                                      testing::affine(CurveAxis::Bytes, 4, 1e-5), 1, 1);
  EXPECT_EQ(make_plan(op, model, {}).value().schedule, Schedule::LocalFirst);
  model.fingerprint = kH100;
  const Plan plan = make_plan(op, model, {}).value();
  EXPECT_EQ(plan.schedule, Schedule::Serial);
  EXPECT_NEAR(plan.compute_us, 80 + 0.2 * 32, 4);
  EXPECT_DOUBLE_EQ(plan.makespan.us, plan.serial_us);
}

TEST(GpuMatmul, KnowsWhatWasMeasuredOnly) {
  const auto op = [](DType dtype) { return testing::all_reduce_op(4096, 8192, 4096, dtype, 2); };
  EXPECT_TRUE(gpu_rates(kH200, op(DType::F16)));
  EXPECT_FALSE(gpu_rates(kH100, op(DType::F32)));
  EXPECT_FALSE(gpu_rates(kH100, op(DType::F8E4m3)));
  EXPECT_FALSE(gpu_rates(kH100, testing::all_reduce_op(32, 8192, 4096, DType::F16, 2))); // cut by columns
  EXPECT_FALSE(gpu_rates({{{"gpu_model", "NVIDIA H100 80GB HBM3"}}}, op(DType::F16)));
  EXPECT_FALSE(gpu_rates({{{"gpu_model", "NVIDIA H100 80GB HBM3"}, {"sm_count", "none"}}}, op(DType::F16)));
  EXPECT_FALSE(gpu_rates({}, op(DType::F16)));
  OpSpec routed = op(DType::F16);
  routed.kind = OpKind::AllToAllMatmul;
  EXPECT_FALSE(gpu_rates(kH100, routed)->is_grouped);
  routed.experts_per_rank = 4;
  EXPECT_TRUE(gpu_rates(kH100, routed)->is_grouped);
  routed.n = 8190;
  EXPECT_FALSE(gpu_rates(kH100, routed)); // the library multiplies it, expert by expert
  OpSpec pooled = op(DType::F16);
  pooled.kind = OpKind::EmbeddingAllToAll;
  EXPECT_FALSE(gpu_rates(kH100, pooled));
}

} // namespace
} // namespace mc2::planner::gpu_matmul_test
