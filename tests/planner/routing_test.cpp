#include "mc2/planner/routing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "support/models.hpp"

namespace mc2::planner::routing_test {
namespace {

using ::testing::HasSubstr;

constexpr double kComputePerRow = 0.5, kComputeFixed = 3, kBytePer = 1.0 / 2048, kMessageFixed = 5, kLocalPerRow = 0.2;

/// 4 ranks, each with up to 64 rows for every rank. No contention; every block has a fixed cost on each lane.
CostModel model_of(OpKind kind) {
  CostModel model = testing::model_of({kind, 256, 128, 128, DType::F32, 4},
                                      testing::affine(CurveAxis::Rows, kComputeFixed, kComputePerRow),
                                      testing::affine(CurveAxis::Bytes, kMessageFixed, kBytePer));
  if (traits_of(kind).has_local_part)
    model.variants.front().local_compute = testing::affine(CurveAxis::Rows, 0, kLocalPerRow);
  return model;
}

RowCounts any_counts() {
  RowCounts counts;
  for (int i = 0; i < 16; ++i)
    counts.push_back(*rc::gen::element(0, 1, 2) == 0 ? 0 : *rc::gen::inRange<std::int64_t>(0, 65));
  counts[1] = std::max<std::int64_t>(counts[1], 1);
  return counts;
}

/// Computes the makespan by its definition: a block is rows [first, first + length) of every pair of ranks, and each
/// rank runs its blocks on its own two lanes.
class Definition {
 public:
  Definition(const OpSpec& op, const RowCounts& counts, const Cut& cut)
      : op_(op), counts_(counts), is_dispatch_(traits_of(op.kind).communicates_first()) {
    std::int64_t first = 0;
    for (const std::int64_t length : cut.block_rows) {
      blocks_.push_back({first, length});
      first += length;
    }
  }

  [[nodiscard]] double makespan_us() const {
    double longest = 0;
    for (int rank = 0; rank < 4; ++rank) longest = std::max(longest, is_dispatch_ ? dispatched(rank) : combined(rank));
    return longest;
  }

 private:
  struct Block {
    std::int64_t first, length;
  };
  [[nodiscard]] std::int64_t rows(int from, int to, const Block& block) const {
    return std::clamp<std::int64_t>(counts_[static_cast<std::size_t>(from * 4 + to)] - block.first, 0, block.length);
  }
  [[nodiscard]] double compute_us(int rank, const Block& block) const {
    double sum = 0;
    for (int peer = 0; peer < 4; ++peer)
      if (!is_dispatch_ || peer != rank)
        sum += static_cast<double>(is_dispatch_ ? rows(peer, rank, block) : rows(rank, peer, block));
    return sum == 0 ? 0 : kComputeFixed + kComputePerRow * sum / (is_dispatch_ ? 3 : 4);
  }
  [[nodiscard]] double exchange_us(int rank, const Block& block) const {
    double received = 0, most_sent = 0;
    for (int peer = 0; peer < 4; ++peer) {
      double sent = 0;
      for (int to = 0; to < 4; ++to) sent += to == peer ? 0 : static_cast<double>(rows(peer, to, block));
      most_sent = std::max(most_sent, sent);
      if (peer != rank) received += static_cast<double>(rows(peer, rank, block));
    }
    if (received == 0) return 0;
    const auto bytes = static_cast<double>(traits_of(op_.kind).message_bytes_per_unit(op_));
    return kMessageFixed + kBytePer * bytes * std::max(received, most_sent) / 3;
  }
  [[nodiscard]] double dispatched(int rank) const {
    double arrived = 0, done = kLocalPerRow * static_cast<double>(counts_[static_cast<std::size_t>(rank * 5)]);
    for (const Block& block : blocks_) {
      arrived += exchange_us(rank, block);
      done = std::max(done, arrived) + compute_us(rank, block);
    }
    return done;
  }
  [[nodiscard]] double combined(int rank) const {
    std::vector<double> made(4);
    double done = 0;
    for (const Block& block : blocks_) {
      for (int peer = 0; peer < 4; ++peer) made[static_cast<std::size_t>(peer)] += compute_us(peer, block);
      done = std::max(done, *std::ranges::max_element(made)) + exchange_us(rank, block);
    }
    return done;
  }

  const OpSpec& op_;
  const RowCounts& counts_;
  bool is_dispatch_;
  std::vector<Block> blocks_;
};

RC_GTEST_PROP(Routing, MakespanIsThatOfTheRankThatTakesLongest, ()) {
  const auto kind = *rc::gen::element(OpKind::AllToAllMatmul, OpKind::MatmulAllToAll);
  const CostModel model = model_of(kind);
  const RowCounts counts = any_counts();
  const Cut cut = *rc::gen::element(Cut{{32, 32}}, Cut{{8, 56}}, Cut{{16, 16, 16, 16}}, Cut{{1, 21, 42}});
  const Plan plan = predict_cut(model.op, model, cut, counts).value();
  RC_ASSERT(std::abs(plan.makespan.us - Definition(model.op, counts, cut).makespan_us()) < 1e-6);
  RC_ASSERT(plan.validate().ok());
  RC_ASSERT(plan.counts == counts);
  RC_ASSERT(std::abs(plan.timeline.makespan_us - plan.makespan.us) < 1e-9);
}

RC_GTEST_PROP(Routing, FullPairsAreTheEqualSplit, ()) {
  const auto kind = *rc::gen::element(OpKind::AllToAllMatmul, OpKind::MatmulAllToAll);
  CostModel model = model_of(kind);
  model.variants.front().compute.slowdown = *rc::gen::element(1.0, 1.2);
  const Cut cut = *rc::gen::element(Cut{{64}}, Cut{{8, 56}}, Cut{{16, 16, 16, 16}});
  const Plan equal = predict_cut(model.op, model, cut).value();
  const Plan full = predict_cut(model.op, model, cut, RowCounts(16, 64)).value();
  RC_ASSERT(std::abs(equal.makespan.us - full.makespan.us) < 1e-9);
  RC_ASSERT(std::abs(equal.serial_us - full.serial_us) < 1e-9);
  RC_ASSERT(std::abs(equal.makespan.high_us - full.makespan.high_us) < 1e-6);
  RC_ASSERT(equal.timeline == full.timeline);
}

RC_GTEST_PROP(Routing, SearchFindsTheBestCutForTheCounts, ()) {
  const auto kind = *rc::gen::element(OpKind::AllToAllMatmul, OpKind::MatmulAllToAll);
  const CostModel model = model_of(kind);
  PlanOptions options{.alignment = 8, .min_block_rows = 8, .require_significant_gain = false, .counts = any_counts()};
  const Plan plan = make_plan(model.op, model, options).value();
  double best_us = 1e300;
  for (const Cut& cut : enumerate_cuts(model.op, options).value())
    best_us = std::min(best_us, predict_cut(model.op, model, cut, options.counts).value().makespan.us);
  RC_ASSERT(plan.makespan.us <= best_us + 1e-9);
  RC_ASSERT(plan.reason.find("times the mean") != std::string::npos);
}

RC_GTEST_PROP(Routing, OneCutForSeveralTablesIsTheBestInTheirMeanOrQuantile, ()) {
  const auto kind = *rc::gen::element(OpKind::AllToAllMatmul, OpKind::MatmulAllToAll);
  const CostModel model = model_of(kind);
  std::vector<RowCounts> tables;
  PlanOptions options{.alignment = 8, .min_block_rows = 8, .require_significant_gain = false};
  options.objective_quantile = *rc::gen::element(0.5, 0.75, 0.95);
  for (int i = *rc::gen::inRange(2, 7); i > 0; --i) {
    tables.push_back(any_counts());
    options.counts.insert(options.counts.end(), tables.back().begin(), tables.back().end());
  }
  const auto makespans_us = [&](const Cut& cut) {
    std::vector<double> result;
    for (const RowCounts& counts : tables)
      result.push_back(predict_cut(model.op, model, cut, counts).value().makespan.us);
    std::ranges::sort(result);
    return result;
  };
  const auto combined_us = [&](const Cut& cut) {
    const auto each = makespans_us(cut);
    const auto count = static_cast<double>(each.size());
    if (options.objective_quantile == 0.5) return std::accumulate(each.begin(), each.end(), 0.0) / count;
    return each[static_cast<std::size_t>(std::ceil(options.objective_quantile * count)) - 1];
  };
  const Plan plan = make_plan(model.op, model, options).value();
  double best_us = 1e300;
  for (const Cut& cut : enumerate_cuts(model.op, options).value()) best_us = std::min(best_us, combined_us(cut));
  RC_ASSERT(combined_us(plan.cut) <= best_us + 1e-9);
  RC_ASSERT(std::ranges::find(tables, plan.counts) != tables.end());
  RC_ASSERT(std::abs(plan.makespan.us - predict_cut(model.op, model, plan.cut, plan.counts).value().makespan.us) <
            1e-9);
  for (const double us : makespans_us(plan.cut))
    RC_ASSERT(std::abs(plan.makespan.us - combined_us(plan.cut)) <= std::abs(us - combined_us(plan.cut)) + 1e-9);
  RC_ASSERT(plan.validate().ok());
}

TEST(Routing, TablesThatGainNothingMakeNoCutSurer) {
  CostModel model = model_of(OpKind::AllToAllMatmul);
  for (auto* lane : {&model.variants.front().compute, &model.variants.front().communication})
    lane->curve.relative_interval = 0.05;
  PlanOptions options{.alignment = 8, .min_block_rows = 8};
  for (std::int64_t rows = 1; rows <= 64; ++rows) {
    options.counts = RowCounts(16, rows);
    const Plan one = make_plan(model.op, model, options).value();
    options.counts.insert(options.counts.end(), 16, rows);
    const Plan two = make_plan(model.op, model, options).value();
    EXPECT_EQ(two.cut, one.cut) << rows;
    EXPECT_EQ(two.makespan, one.makespan) << rows;
    EXPECT_EQ(two.runners_up, one.runners_up) << rows;
  }
  RowCounts skewed(16, 6);
  for (std::size_t from = 0; from < 4; ++from) skewed[from * 4] = 64;
  int cut_count = 0;
  for (int few = 0; few < 4; ++few) {
    options.counts = skewed;
    for (int i = 0; i < few; ++i) options.counts.insert(options.counts.end(), 16, 1);
    const Plan plan = make_plan(model.op, model, options).value();
    cut_count += plan.is_cut() ? 1 : 0;
    if (plan.is_cut()) continue;
    EXPECT_EQ(cut_count, 0) << "the other tables have made it surer";
    EXPECT_TRUE(plan.counts == skewed || plan.counts == RowCounts(16, 1));
  }
}

TEST(Routing, SerialIsOfTheBusiestRankAndOfTheBusiestSender) {
  // Only rank 1's experts get rows: 64 from each of the 4 ranks, rank 1 included.
  RowCounts counts(16);
  for (const std::size_t from : {0, 1, 2, 3}) counts[from * 4 + 1] = 64;
  const CostModel dispatch = model_of(OpKind::AllToAllMatmul);
  const Plan plan = predict_cut(dispatch.op, dispatch, uncut(dispatch.op), counts).value();
  EXPECT_DOUBLE_EQ(plan.compute_us, kLocalPerRow * 64 + kComputeFixed + kComputePerRow * 64);
  EXPECT_DOUBLE_EQ(plan.communication_us, kMessageFixed + kBytePer * 4 * 128 * 4 * 64);
  EXPECT_DOUBLE_EQ(imbalance_of(dispatch.op, counts), 4);
  // The way back: rank 1 multiplies all rows, and sends to three ranks at a time.
  RowCounts back(16);
  for (const std::size_t to : {0, 1, 2, 3}) back[4 + to] = 64;
  const CostModel combine = model_of(OpKind::MatmulAllToAll);
  const Plan returned = predict_cut(combine.op, combine, uncut(combine.op), back).value();
  EXPECT_DOUBLE_EQ(returned.compute_us, kComputeFixed + kComputePerRow * 64);
  EXPECT_DOUBLE_EQ(returned.communication_us, kMessageFixed + kBytePer * 4 * 128 * 4 * 64);
}

TEST(Routing, ImbalanceKeepsEveryRanksRowsAndGivesOneRanksExpertsMore) {
  for (const OpKind kind : {OpKind::AllToAllMatmul, OpKind::MatmulAllToAll}) {
    const OpSpec balanced{kind, 1000, 8, 8, DType::F32, 4};
    for (const double imbalance : {1.0, 1.3, 2.0, 4.0}) {
      const RoutedOp routed = with_imbalance(balanced, imbalance).value();
      EXPECT_TRUE(validate_counts(routed.op, routed.counts).ok());
      EXPECT_EQ(std::reduce(routed.counts.begin(), routed.counts.end(), std::int64_t{0}), 4000);
      EXPECT_NEAR(imbalance_of(routed.op, routed.counts), imbalance, 0.01);
      EXPECT_GE(routed.op.m, imbalance * 1000);
      EXPECT_LT(routed.op.m, imbalance * 1000 + 8);
      for (std::size_t token_rank = 0; token_rank < 4; ++token_rank) {
        std::int64_t rows = 0;
        for (std::size_t holder = 0; holder < 4; ++holder)
          rows += routed.counts[kind == OpKind::AllToAllMatmul ? token_rank * 4 + holder : holder * 4 + token_rank];
        EXPECT_EQ(rows, 1000);
      }
    }
  }
}

TEST(Routing, PiecesArePassedAsUnequalAsThePeersRows) {
  for (const OpKind kind : {OpKind::AllToAllMatmul, OpKind::MatmulAllToAll}) {
    CostModel model = model_of(kind);
    model.variants.front().variant = {"direct", {{std::string(kSlicesSetting), "3"}}};
    const bool is_dispatch = traits_of(kind).communicates_first();
    const auto overlapped_part = [&](std::int64_t first, std::int64_t second, std::int64_t third) {
      RowCounts counts(16);
      const std::array<std::int64_t, 3> rows{first, second, third};
      for (std::size_t peer = 1; peer < 4; ++peer) counts[is_dispatch ? 4 * peer : peer] = rows[peer - 1];
      const Plan plan = predict_cut(model.op, model, uncut(model.op), counts).value();
      return 1 - plan.makespan.us / plan.serial_us;
    };
    EXPECT_NEAR(overlapped_part(60, 0, 0), 0, 1e-9) << "one peer has all";
    EXPECT_GT(overlapped_part(30, 30, 0), 0.1);
    EXPECT_GT(overlapped_part(20, 20, 20), overlapped_part(30, 30, 0));
    EXPECT_NEAR(overlapped_part(40, 10, 10), 0, 1e-9) << "less than two of the longest piece";
  }
}

TEST(Routing, ManyRanksArePlannedQuicklyAndTooManyRefused) {
  const OpSpec balanced{OpKind::AllToAllMatmul, kMaxCountedRanks * 64, 128, 128, DType::F32, kMaxCountedRanks};
  const RoutedOp routed = with_imbalance(balanced, 1.5).value();
  CostModel model = model_of(OpKind::AllToAllMatmul);
  model.op = routed.op;
  const Plan plan = make_plan(routed.op, model, {.alignment = 8, .min_block_rows = 8, .counts = routed.counts}).value();
  EXPECT_TRUE(plan.makespan.us > 0);
  OpSpec more = balanced;
  more.world_size = kMaxCountedRanks * 2;
  EXPECT_THAT(with_imbalance(more, 1).error().text(), HasSubstr("is 1 of 512 ranks; legal: up to 256"));
  EXPECT_THAT(validate_counts(more, RowCounts(4, 1)).error().text(), HasSubstr("legal: up to 256"));
  EXPECT_FALSE(validate_counts({.kind = OpKind::AllToAllMatmul}, RowCounts()).ok());
}

TEST(Routing, OnlyVariantsThatTakeCountsAreChosen) {
  CostModel model = model_of(OpKind::AllToAllMatmul);
  model.variants.push_back(model.variants.front());
  model.variants.back().variant.name = "push";
  model.variants.back().compute.curve = testing::affine(CurveAxis::Rows, 0, 0.01); // the fastest, but takes no counts
  const PlanOptions options{.counts = RowCounts(16, 32)};
  EXPECT_EQ(make_plan(model.op, model, {}).value().variant.name, "push");
  EXPECT_EQ(make_plan(model.op, model, options).value().variant.name, "direct");
  EXPECT_EQ(predict_cut(model.op, model, {{32, 32}}, options.counts).value().variant.name, "direct");
  EXPECT_EQ(predict_cut(model.op, model, {"push", {}}, {{32, 32}}, options.counts).error().code, ErrorCode::Infeasible);
  model.fingerprint.fields["backend"] = "cuda";
  EXPECT_EQ(make_plan(model.op, model, options).value().variant.name, "push");
  model.variants.back().variant.name = "nccl_copy_engine";
  EXPECT_EQ(make_plan(model.op, model, options).value().variant.name, "direct");
  model.op.dtype = DType::F8E4m3;
  EXPECT_EQ(make_plan(model.op, model, options).error().code, ErrorCode::Infeasible);
}

TEST(Routing, LengthsThatWereNotMeasuredAreTold) {
  CostModel model = model_of(OpKind::MatmulAllToAll);
  model.variants.front().compute.curve.valid_min_x = 16;
  model.variants.front().compute.curve.valid_max_x = 64;
  EXPECT_LT(predict_cut(model.op, model, {{32, 32}}).value().makespan.provenance, Provenance::Extrapolated);
  EXPECT_EQ(predict_cut(model.op, model, {{32, 32}}, RowCounts(16, 34)).value().makespan.provenance,
            Provenance::Extrapolated); // the second block has 2 rows; at least 16 were measured
}

TEST(Routing, BadInputIsNamed) {
  const OpSpec op{OpKind::AllToAllMatmul, 256, 8, 8, DType::F32, 4};
  EXPECT_THAT(validate_counts(op, RowCounts(9, 1)).error().text(), HasSubstr("are 9; 4 ranks have 16"));
  RowCounts counts(16, 1);
  counts[6] = 65;
  EXPECT_THAT(validate_counts(op, counts).error().text(),
              HasSubstr("name 65 rows from rank 1 to rank 2; legal: 0 to m / ranks = 64"));
  EXPECT_THAT(validate_counts(op, RowCounts(16, 0)).error().text(), HasSubstr("no row at all"));
  OpSpec other = op;
  other.kind = OpKind::AllGatherMatmul;
  EXPECT_THAT(validate_counts(other, counts).error().text(), HasSubstr("not all_gather_matmul"));
  EXPECT_THAT(with_imbalance(op, 4.5).error().text(), HasSubstr("is 4.5; legal: 1 to 4"));
  EXPECT_THAT(with_imbalance(op, 0.5).error().text(), HasSubstr("imbalance"));
  EXPECT_THAT(with_imbalance(other, 2).error().text(), HasSubstr("not all_gather_matmul"));
  const CostModel model = model_of(OpKind::AllToAllMatmul);
  PlanOptions options{.counts = RowCounts(9, 1)};
  EXPECT_EQ(make_plan(model.op, model, options).error().field, "counts");
  options.counts = RowCounts(32, 1);
  options.counts[20] = 65;
  EXPECT_THAT(make_plan(model.op, model, options).error().text(), HasSubstr("table 2: name 65 rows from rank 1"));
  options.counts.assign(16 * (kMaxCountTables + 1), 1);
  EXPECT_THAT(make_plan(model.op, model, options).error().text(),
              HasSubstr("are 257 tables; legal for 4 ranks: up to 256"));
  options.counts.assign(24, 1);
  EXPECT_THAT(make_plan(model.op, model, options).error().text(), HasSubstr("are 24; 4 ranks have 16 in each table"));
  options = {.strategy = "free", .counts = RowCounts(16, 1)};
  EXPECT_EQ(make_plan(model.op, model, options).error().field, "strategy");
}

} // namespace
} // namespace mc2::planner::routing_test
