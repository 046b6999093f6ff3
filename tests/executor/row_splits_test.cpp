#include "row_splits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/host/host_backend.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/cutting.hpp"
#include "support/counts.hpp"
#include "support/oracle.hpp"
#include "support/prepare.hpp"

/// Tests unequal splits: where rows lie, what is refused, and the host backend's results on every link.
namespace mc2::executor::row_splits_test {
namespace {

using planner::Cut;
using planner::OpKind;
using planner::OpSpec;
using testing::are_same_bytes;
using testing::expert_counts;
using testing::Routing;
using testing::skewed_counts;
using Counts = std::vector<std::int64_t>; ///< [from, to], row-major

OpSpec op_of(OpKind kind, std::int64_t most, std::int64_t n, std::int64_t k, int ranks) {
  return {kind, most * ranks, n, k, planner::DType::F32, ranks};
}

std::unique_ptr<Communicator> open(int ranks, const std::string& link, const std::string& device = "") {
  return host::host_backend().open(testing::host_options(ranks, link, device)).value();
}

Result<std::unique_ptr<Prepared>> prepare(const OpSpec& op, const Cut& cut, std::span<const RankBuffers> buffers,
                                          Communicator& communicator) {
  return testing::prepare_cut(communicator, op, cut, {"direct", {}}, buffers, {.allow_independent = true});
}

void expect_right(const OpSpec& op, std::span<const RankBuffers> buffers) {
  const auto expected = testing::naive_results(op, buffers);
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    const auto got = testing::elements(planner::product_type(op), buffers[rank].c);
    ASSERT_EQ(got.size(), expected[rank].size());
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_LE(std::abs(got[i] - expected[rank][i]), testing::allowed_error(op))
          << "rank " << rank << ", element " << i;
  }
}

TEST(RowSplits, RowsArePackedInTheOrderOfTheRanks) {
  const OpSpec op = op_of(OpKind::MatmulAllToAll, 4, 2, 2, 3);
  const RandomProblem problem(op, 1, {.counts = Counts{1, 0, 4, 2, 3, 0, 0, 1, 1}});
  EXPECT_EQ(received_counts(op, problem.buffers()).value(), (Counts{1, 2, 0, 0, 3, 1, 4, 0, 1}));
  const RowSplits splits(op, problem.buffers());
  EXPECT_EQ(splits.count(1, 0), 2);
  EXPECT_EQ(splits.send_offset(0, 2), 1);    // 1 + 0
  EXPECT_EQ(splits.send_offset(1, 2), 5);    // 2 + 3
  EXPECT_EQ(splits.receive_offset(0, 2), 3); // 1 + 2
  EXPECT_EQ(splits.receive_offset(1, 2), 3); // 0 + 3
  EXPECT_EQ(splits.sent_rows(0), 5);
  EXPECT_EQ(splits.received_rows(2), 5); // 4 + 0 + 1
  const RowSplits equal(op, RandomProblem(op, 1).buffers());
  EXPECT_EQ(equal.count(2, 1), 4);
  EXPECT_EQ(equal.send_offset(2, 1), 4);
  EXPECT_EQ(equal.received_rows(0), 12);
}

class UnequalSplits : public ::testing::TestWithParam<std::tuple<OpKind, const char*>> {
 protected:
  static OpKind kind() { return std::get<0>(GetParam()); }
  static const char* link() { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Host, UnequalSplits,
                         ::testing::Combine(::testing::Values(OpKind::MatmulAllToAll, OpKind::AllToAllMatmul),
                                            ::testing::Values("shm", "100Gbit", "tcp:100Gbit")),
                         [](const auto& instance) {
                           const std::string link = std::get<1>(instance.param);
                           return std::string(to_string(std::get<0>(instance.param))) + (link == "shm" ? "_shm"
                                                                                         : link == "100Gbit"
                                                                                             ? "_emulated"
                                                                                             : "_tcp");
                         });

TEST_P(UnequalSplits, ResultIsTheDefinitionForRandomSkewedCounts) {
  std::mt19937 random(20251121);
  for (const int ranks : {2, 3, 4, 8}) {
    const auto communicator = open(ranks, link());
    for (const Cut& cut : {Cut{{13}}, Cut{{5, 8}}, Cut{{1, 3, 3, 3, 3}}}) {
      const OpSpec op = op_of(kind(), 13, 7, 5, ranks);
      const Counts counts = skewed_counts(ranks, 13, random);
      RandomProblem problem(op, random(), {.counts = counts});
      const auto prepared = prepare(op, cut, problem.buffers(), *communicator);
      ASSERT_TRUE(prepared.ok()) << prepared.error().text();
      for (const auto mode : {RunMode::Fused, RunMode::Serial}) {
        problem.poison();
        prepared.value()->run(mode);
        expect_right(op, problem.buffers());
        const auto found = verify_result(op, problem.buffers(), cut, 1);
        ASSERT_TRUE(found.ok()) << found.error().text();
      }
      prepared.value()->run(RunMode::Independent);
      problem.poison();
      prepared.value()->run(RunMode::Fused);
      expect_right(op, problem.buffers());
      const auto moved = verify_exchange(op, prepared.value()->intermediates(), problem.buffers(), cut);
      ASSERT_TRUE(moved.ok()) << moved.error().text();
    }
  }
}

TEST_P(UnequalSplits, BiasIsTheMultiplyingRanksAndTheResidualLiesAsCDoes) {
  std::mt19937 random(7);
  const auto communicator = open(3, link());
  for (const auto dtype : {planner::DType::F32, planner::DType::Bf16, planner::DType::I8}) {
    OpSpec op = op_of(kind(), 13, 7, 5, 3);
    op.dtype = dtype;
    op.epilogue = {.has_bias = true, .has_residual = true};
    if (!host::host_backend().supports(op)) continue; // the CPU lacks this type
    for (const Cut& cut : {Cut{{13}}, Cut{{1, 4, 8}}}) {
      SCOPED_TRACE(op.text() + ", cut " + cut.text());
      const Counts counts = skewed_counts(3, 13, random);
      RandomProblem problem(op, random(), {.counts = counts});
      const auto prepared = prepare(op, cut, problem.buffers(), *communicator);
      ASSERT_TRUE(prepared.ok()) << prepared.error().text();
      prepared.value()->run(RunMode::Fused);
      expect_right(op, problem.buffers());
      const auto found = verify_result(op, problem.buffers(), cut, 1);
      EXPECT_TRUE(found.ok()) << found.error().text();
      const auto moved = verify_exchange(op, prepared.value()->intermediates(), problem.buffers(), cut);
      EXPECT_TRUE(moved.ok()) << moved.error().text();
    }
  }
}

TEST_P(UnequalSplits, FullCountsAreTheEqualSplit) {
  const OpSpec op = op_of(kind(), 12, 6, 4, 3);
  const auto communicator = open(3, link());
  RandomProblem equal(op, 5), full(op, 5, {.counts = Counts(9, 12)});
  prepare(op, {{4, 8}}, equal.buffers(), *communicator).value()->run(RunMode::Fused);
  prepare(op, {{4, 8}}, full.buffers(), *communicator).value()->run(RunMode::Fused);
  for (std::size_t rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(are_same_bytes(equal.buffers()[rank].c, full.buffers()[rank].c)) << "rank " << rank;
}

TEST_P(UnequalSplits, LargerProblemPassesTheOracleOfVerifyAndAWrongRowDoesNot) {
  std::mt19937 random(3);
  const OpSpec op = op_of(kind(), 150, 136, 264, 3);
  RandomProblem problem(op, 9, {.counts = skewed_counts(3, 150, random)});
  const auto communicator = open(3, link());
  prepare(op, {{6, 72, 72}}, problem.buffers(), *communicator).value()->run(RunMode::Fused);
  ASSERT_TRUE(verify_result(op, problem.buffers(), {{6, 72, 72}}, 1).ok());
  // The last row of rank 1 is copied over the row before it. Only the oracle for that row can find this.
  const std::size_t row_bytes = 136 * 4;
  const auto c = problem.buffers()[1].c;
  std::ranges::copy(c.last(row_bytes), c.end() - 2 * static_cast<std::ptrdiff_t>(row_bytes));
  EXPECT_EQ(verify_result(op, problem.buffers(), {{6, 72, 72}}, 1).error().code, ErrorCode::Mismatch);
}

TEST_P(UnequalSplits, NothingBeyondTheCountedRowsIsWritten) {
  const OpSpec op = op_of(kind(), 9, 5, 3, 2);
  const Counts counts{2, 9, 1, 4};
  const RandomProblem problem(op, 1, {.counts = counts});
  std::vector<RankBuffers> buffers(problem.buffers().begin(), problem.buffers().end());
  // C of each rank lies in the middle of larger memory, the rest of which must stay unchanged.
  std::vector<std::vector<std::byte>> memory;
  for (RankBuffers& rank : buffers) {
    auto& own = memory.emplace_back(rank.c.size() + 2 * 64, std::byte{0x5A});
    rank.c = std::span(own).subspan(64, rank.c.size());
  }
  const auto communicator = open(2, link());
  prepare(op, {{3, 6}}, buffers, *communicator).value()->run(RunMode::Fused);
  expect_right(op, buffers);
  for (const auto& own : memory) {
    EXPECT_EQ(std::ranges::count(std::span(own).first(64), std::byte{0x5A}), 64);
    EXPECT_EQ(std::ranges::count(std::span(own).last(64), std::byte{0x5A}), 64);
  }
}

TEST(UnequalSplits, BlocksTakeTheTimeOfTheRowsThatTheyHaveAndEmptyOnesNone) {
  using std::chrono::nanoseconds;
  // 2 * 10 * 50 flop at one per ns: a row takes 1 us of matmul, a block 5 us more. 10 * 4 bytes at 100 Mbit/s: a row of
  // C takes 3.2 us on the link, a block 10 us more.
  const OpSpec op = op_of(OpKind::MatmulAllToAll, 40, 10, 50, 2);
  const Counts counts{0, 25, 10, 0};
  RandomProblem problem(op, 1, {.counts = counts});
  const auto communicator = open(2, "100Mbit,10us", "1Gflops,5us");
  const auto prepared = prepare(op, {{20, 10, 10}}, problem.buffers(), *communicator).value();
  const auto& record = prepared->run(RunMode::Fused);
  // Rank 0 multiplies 20 rows, 5 and none in the three blocks; rank 1 multiplies 10 rows, then none.
  const auto& own = record.ranks[0].compute;
  EXPECT_EQ(own[0].end, nanoseconds(25'000));
  EXPECT_EQ(own[1].end, nanoseconds(35'000));
  EXPECT_EQ(own[2].end, own[2].start);
  EXPECT_EQ(record.ranks[1].compute[0].end, nanoseconds(15'000));
  EXPECT_EQ(record.ranks[1].compute[1].end, record.ranks[1].compute[1].start);
  // Rank 0 gets 10 rows of rank 1; rank 1 gets 20 and 5 rows of rank 0. The times are lower bounds, because copying
  // takes time as well.
  EXPECT_GE(record.ranks[0].communication[0].end - record.ranks[0].communication[0].start, nanoseconds(42'000));
  EXPECT_EQ(record.ranks[0].communication[1].end, record.ranks[0].communication[1].start);
  EXPECT_GE(record.ranks[1].communication[1].end - record.ranks[1].communication[1].start, nanoseconds(26'000));
  EXPECT_EQ(record.ranks[1].communication[2].end, record.ranks[1].communication[2].start);
  EXPECT_TRUE(verify_exchange(op, prepared->intermediates(), problem.buffers(), {{20, 10, 10}}).ok());
}

class SplitRefusal : public ::testing::Test {
 protected:
  void expect_refused(const std::string& text) {
    const auto refused = prepare(op_, {{4}}, buffers_, *communicator_);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
    EXPECT_THAT(refused.error().text(), ::testing::HasSubstr(text));
    buffers_ = good_;
  }

  OpSpec op_ = op_of(OpKind::AllToAllMatmul, 4, 3, 2, 3);
  RandomProblem problem_{op_, 1, {.counts = Counts{1, 2, 3, 4, 1, 2, 3, 4, 1}}};
  std::vector<RankBuffers> good_{problem_.buffers().begin(), problem_.buffers().end()};
  std::vector<RankBuffers> buffers_ = good_;
  std::unique_ptr<Communicator> communicator_ = open(3, "shm");
};

TEST_F(SplitRefusal, CountsThatARankCannotHave) {
  const Counts negative{-1, 3, 4}, huge{1, 2, 5}, few{1, 2};
  buffers_[1].send_counts = negative;
  EXPECT_EQ(received_counts(op_, buffers_).error().field, "counts");
  expect_refused("rank 1 sends -1 rows to rank 0; legal: 0 to m / ranks = 4");
  buffers_[2].receive_counts = huge;
  expect_refused("rank 2 receives 5 rows from rank 2");
  buffers_[0].receive_counts = few;
  expect_refused("rank 0 receives 2 counts; one for each of the 3 ranks");
  buffers_[1].receive_counts = {};
  expect_refused("rank 1 receives 0 counts");
}

TEST_F(SplitRefusal, CountsOnWhichRanksDoNotAgree) {
  const Counts other{2, 1, 3}; // the sum is unchanged
  buffers_[0].send_counts = other;
  expect_refused("rank 0 sends rank 0 2 rows, which expects 1");
  const RandomProblem equal(op_, 1);
  buffers_[2] = equal.buffers()[2];
  expect_refused("rank 2 has no counts, unlike rank 0");
}

TEST_F(SplitRefusal, CountsThatDoNotAddUpToTheBuffer) {
  buffers_[1].a = buffers_[1].a.first(buffers_[1].a.size() - 8);
  expect_refused("rank 1 A has 48 bytes; [7, 2] needs 56");
  buffers_[2].c = buffers_[2].c.first(buffers_[2].c.size() - 12);
  expect_refused("rank 2 C has 60 bytes; [6, 3] needs 72");
}

TEST_F(SplitRefusal, AResidualThatHasOtherRowsThanC) {
  op_.epilogue.has_residual = true;
  const std::vector<std::byte> capacity(12 * 3 * 4); // 12 rows, but rank 0 gets 1 + 4 + 3
  buffers_[0].residual = capacity;
  expect_refused("rank 0 residual has 144 bytes; [8, 3] needs 96");
}

TEST_F(SplitRefusal, CountsOfAKindThatHasNone) {
  op_.kind = OpKind::AllGatherMatmul;
  expect_refused("rank 0 has counts; matmul_all_to_all and all_to_all_matmul take them, not all_gather_matmul");
}

class Experts : public UnequalSplits {};

INSTANTIATE_TEST_SUITE_P(Host, Experts,
                         ::testing::Combine(::testing::Values(OpKind::MatmulAllToAll, OpKind::AllToAllMatmul),
                                            ::testing::Values("shm", "100Gbit", "tcp:100Gbit")),
                         [](const auto& instance) {
                           const std::string link = std::get<1>(instance.param);
                           return std::string(to_string(std::get<0>(instance.param))) + "_" +
                                  std::to_string(link.size());
                         });

TEST_P(Experts, ResultIsTheDefinitionHoweverRowsAreRouted) {
  std::mt19937 random(20261128);
  for (const int ranks : {2, 3, 4, 8}) {
    const auto communicator = open(ranks, link());
    for (const std::int64_t experts : {2, 3}) {
      for (const Routing routing : {Routing::Equal, Routing::Halves, Routing::OneTakesAll, Routing::Random}) {
        OpSpec op = op_of(kind(), 12, 7, 5, ranks);
        op.experts_per_rank = experts;
        op.epilogue = {.has_bias = random() % 2 == 0, .has_residual = random() % 2 == 0};
        const Cut cut = random() % 2 == 0 ? Cut{{12}} : Cut{{1, 4, 7}};
        SCOPED_TRACE(op.text() + ", routing " + std::to_string(static_cast<int>(routing)) + ", cut " + cut.text());
        RandomProblem problem(op, random(), {.counts = expert_counts(routing, op, random)});
        const auto prepared = prepare(op, cut, problem.buffers(), *communicator);
        ASSERT_TRUE(prepared.ok()) << prepared.error().text();
        for (const auto mode : {RunMode::Fused, RunMode::Serial}) {
          problem.poison();
          prepared.value()->run(mode);
          expect_right(op, problem.buffers());
          const auto found = verify_result(op, problem.buffers(), cut, 1);
          ASSERT_TRUE(found.ok()) << found.error().text();
        }
        const auto moved = verify_exchange(op, prepared.value()->intermediates(), problem.buffers(), cut);
        ASSERT_TRUE(moved.ok()) << moved.error().text();
      }
    }
  }
}

TEST_P(Experts, HaveTheirOwnBiasAndScales) {
  std::mt19937 random(11);
  const auto communicator = open(3, link());
  for (const auto dtype : {planner::DType::F32, planner::DType::Bf16, planner::DType::I8}) {
    OpSpec op = op_of(kind(), 12, 7, 5, 3);
    op.dtype = dtype;
    op.experts_per_rank = 4;
    op.epilogue = {.has_bias = true, .has_residual = true};
    if (!host::host_backend().supports(op)) continue; // the CPU lacks this type
    RandomProblem problem(op, random(), {.counts = expert_counts(Routing::Random, op, random)});
    const auto prepared = prepare(op, {{1, 4, 7}}, problem.buffers(), *communicator);
    ASSERT_TRUE(prepared.ok()) << prepared.error().text();
    prepared.value()->run(RunMode::Fused);
    expect_right(op, problem.buffers());
    const auto found = verify_result(op, problem.buffers(), {{1, 4, 7}}, 1);
    EXPECT_TRUE(found.ok()) << found.error().text();
  }
}

TEST_P(Experts, WithoutCountsAreSplitEqually) {
  std::mt19937 random(1);
  OpSpec op = op_of(kind(), 12, 6, 4, 3);
  op.experts_per_rank = 4;
  const auto communicator = open(3, link());
  RandomProblem equal(op, 5), counted(op, 5, {.counts = expert_counts(Routing::Equal, op, random)});
  prepare(op, {{4, 8}}, equal.buffers(), *communicator).value()->run(RunMode::Fused);
  prepare(op, {{4, 8}}, counted.buffers(), *communicator).value()->run(RunMode::Fused);
  expect_right(op, equal.buffers());
  for (std::size_t rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(are_same_bytes(equal.buffers()[rank].c, counted.buffers()[rank].c)) << "rank " << rank;
}

TEST_P(Experts, VerifyFindsARowThatAnotherExpertMultiplied) {
  std::mt19937 random(3);
  OpSpec op = op_of(kind(), 150, 136, 264, 3);
  op.experts_per_rank = 3;
  RandomProblem problem(op, 9, {.counts = expert_counts(Routing::Halves, op, random)});
  const auto communicator = open(3, link());
  prepare(op, {{6, 72, 72}}, problem.buffers(), *communicator).value()->run(RunMode::Fused);
  const auto found = verify_result(op, problem.buffers(), {{6, 72, 72}}, 1);
  ASSERT_TRUE(found.ok()) << found.error().text();
  std::vector<RankBuffers> other(problem.buffers().begin(), problem.buffers().end());
  const std::size_t size = other[1].b.size() / 3;
  std::vector<std::byte> turned(other[1].b.begin() + static_cast<std::ptrdiff_t>(size), other[1].b.end());
  turned.insert(turned.end(), other[1].b.begin(), other[1].b.begin() + static_cast<std::ptrdiff_t>(size));
  other[1].b = turned;
  EXPECT_EQ(verify_result(op, other, {{6, 72, 72}}, 1).error().code, ErrorCode::Mismatch);
}

TEST(Experts, ResultIsTheDefinitionInAThousandRandomCases) {
  std::mt19937 random(1000);
  const auto below = [&](std::int64_t end) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(end)); };
  for (const int ranks : {2, 3, 4, 8}) {
    const auto communicator = open(ranks, "shm");
    for (int i = 0; i < 250; ++i) {
      const std::int64_t experts = 1 + below(5), most = experts * (1 + below(6));
      OpSpec op = op_of(below(2) == 0 ? OpKind::MatmulAllToAll : OpKind::AllToAllMatmul, most, 1 + below(9),
                        1 + below(9), ranks);
      op.experts_per_rank = experts;
      op.epilogue = {.has_bias = below(2) == 0, .has_residual = below(2) == 0};
      const std::int64_t first = 1 + below(most);
      const Cut cut = first == most ? Cut{{most}} : Cut{{first, most - first}};
      const auto routing = static_cast<Routing>(below(4));
      SCOPED_TRACE(op.text() + ", routing " + std::to_string(static_cast<int>(routing)) + ", cut " + cut.text());
      RandomProblem problem(op, random(), {.counts = expert_counts(routing, op, random)});
      const auto prepared = prepare(op, cut, problem.buffers(), *communicator);
      ASSERT_TRUE(prepared.ok()) << prepared.error().text();
      prepared.value()->run(below(2) == 0 ? RunMode::Fused : RunMode::Serial);
      expect_right(op, problem.buffers());
      if (HasFailure()) return;
    }
  }
}

TEST(Experts, RowsArePackedByExpertAtTheirRankAndByRankElsewhere) {
  OpSpec op = op_of(OpKind::AllToAllMatmul, 4, 2, 2, 2);
  op.experts_per_rank = 2;
  // Rank 0 sends 1 and 2 rows to rank 0's experts, 3 and 0 to rank 1's. Rank 1 sends 0 and 4, and 1 and 1.
  const RandomProblem problem(op, 1, {.counts = Counts{1, 2, 3, 0, 0, 4, 1, 1}});
  const RowSplits splits(op, problem.buffers());
  EXPECT_EQ(splits.count(0, 0), 3);
  EXPECT_EQ(splits.send_offset(0, 1), 3);
  EXPECT_EQ(splits.receive_offset(1, 1), 3);
  const auto of = [&](int holder, int peer, std::size_t expert) { return splits.rows_by_expert(holder, peer)[expert]; };
  EXPECT_EQ(of(0, 0, 1).first, 1);
  EXPECT_EQ(of(0, 0, 1).row, 1); // expert 0 has 1 row of rank 0 and none of rank 1
  EXPECT_EQ(of(0, 1, 1).row, 3); // after them 2 of rank 0
  EXPECT_EQ(of(1, 1, 0).row, 3); // after 3 of rank 0
  EXPECT_EQ(of(1, 1, 1).row, 4);
  EXPECT_EQ(of(1, 1, 1).first, 1);
}

TEST(Experts, CountsThatCannotBeNameTheExpert) {
  OpSpec op = op_of(OpKind::AllToAllMatmul, 4, 3, 2, 2);
  op.experts_per_rank = 2;
  const RandomProblem problem(op, 1, {.counts = Counts(8, 1)});
  const auto communicator = open(2, "shm");
  const auto refusal = [&](const Counts& sent_by_rank_1) {
    std::vector<RankBuffers> buffers(problem.buffers().begin(), problem.buffers().end());
    buffers[1].send_counts = sent_by_rank_1;
    const auto refused = prepare(op, {{4}}, buffers, *communicator);
    return refused ? "" : refused.error().text();
  };
  EXPECT_THAT(refusal({1, 1, 1, -2}), ::testing::HasSubstr("rank 1 sends -2 rows to rank 1 of expert 1; legal: 0 to"));
  EXPECT_THAT(refusal({3, 3, 1, 1}), ::testing::HasSubstr("rank 1 sends 6 rows to rank 0 in all; legal: 0 to m / r"));
  EXPECT_THAT(refusal({1, 1}), ::testing::HasSubstr("2 counts; one for each of the 4 experts is needed"));
  EXPECT_THAT(refusal({0, 2, 1, 1}), ::testing::HasSubstr("rank 1 sends rank 0 0 rows of expert 0, which expects 1"));
}

TEST(UnequalSplits, OtherVariantsThanDirectSayThatTheyHaveNone) {
  const OpSpec op = op_of(OpKind::MatmulAllToAll, 4, 2, 2, 2);
  const RandomProblem problem(op, 1, {.counts = Counts(4, 2)});
  const auto communicator = open(2, "shm");
  const auto refused = testing::prepare_cut(*communicator, op, {{4}}, {"push", {}}, problem.buffers(), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("\"push\" exchanges equal splits only"));
}

TEST(UnequalSplits, PlansForCountsNameVariantsThatTakeThem) {
  const OpSpec op = op_of(OpKind::MatmulAllToAll, 64, 64, 2, 2);
  const RandomProblem problem(op, 1, {.counts = Counts(4, 32)});
  for (const char* link : {"shm", "100Gbit"}) {
    const auto communicator = open(2, link);
    for (const planner::Variant& variant : host::host_backend().variants(op, testing::host_options(2, link)))
      EXPECT_EQ(testing::prepare_cut(*communicator, op, {{64}}, variant, problem.buffers(), {}).ok(),
                planner::takes_counts(communicator->fingerprint(), op, variant))
          << variant.text();
  }
}

TEST(AgreedSplits, AreThoseOfAllRanksOrNone) {
  const OpSpec op = op_of(OpKind::MatmulAllToAll, 6, 2, 2, 2);
  const auto told_by = [&](std::span<const RankBuffers> buffers) {
    std::vector<std::int64_t> told;
    for (const RankBuffers& rank : buffers) std::ranges::copy(counts_of(op, rank), std::back_inserter(told));
    return told;
  };
  EXPECT_FALSE(agreed_splits(op, told_by(RandomProblem(op, 1).buffers())).value());
  const RandomProblem problem(op, 1, {.counts = Counts{1, 2, 3, 0}});
  const auto agreed = agreed_splits(op, told_by(problem.buffers())).value();
  ASSERT_TRUE(agreed);
  EXPECT_EQ(agreed->count(0, 1), 2);
  EXPECT_EQ(agreed->count(1, 0), 3);
  std::vector<RankBuffers> some(problem.buffers().begin(), problem.buffers().end());
  some[1].send_counts = some[1].receive_counts = {};
  EXPECT_THAT(agreed_splits(op, told_by(some)).error().message, ::testing::HasSubstr("rank 1 has no counts"));
}

} // namespace
} // namespace mc2::executor::row_splits_test
