#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backends/host/host_backend.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/verify.hpp"
#include "support/prepare.hpp"

/// Tests how embedding_all_to_all treats bags. The conformance suite compares its results with the definition.
namespace mc2::executor::pooling_device_test {
namespace {

using planner::OpKind;
using planner::OpSpec;
using planner::Pooling;

constexpr std::int64_t kSampleCount = 4;

/// Two ranks, each with two tables of three rows and two features; four samples.
OpSpec small_op(Pooling pooling) {
  OpSpec op{OpKind::EmbeddingAllToAll, kSampleCount, 4, 1, planner::DType::F32, 2};
  op.tables = {.table_count = 2, .row_count = 3, .pooling = pooling};
  return op;
}

/// Owns the bags and tables of both ranks. Row e of table t of rank r holds {v, -v} with v = 100 r + 10 t + e + 1.
template <typename Number>
struct SmallProblem {
  std::vector<Number> offsets, indices;
  std::vector<std::vector<float>> tables, results;

  /// Every table has the bags {0}, {}, {1, 2}, {2, 2, 0} for samples 0 to 3.
  SmallProblem() {
    for (int table = 0; table < 2; ++table) {
      for (const auto& bag : std::vector<std::vector<Number>>{{0}, {}, {1, 2}, {2, 2, 0}}) {
        offsets.push_back(static_cast<Number>(indices.size()));
        indices.insert(indices.end(), bag.begin(), bag.end());
      }
    }
    offsets.push_back(static_cast<Number>(indices.size()));
    for (int rank = 0; rank < 2; ++rank) {
      auto& own = tables.emplace_back();
      for (int row = 0; row < 6; ++row) {
        const auto value = static_cast<float>(100 * rank + 10 * (row / 3) + row % 3 + 1);
        own.insert(own.end(), {value, -value});
      }
      results.emplace_back(16, -1.0F);
    }
  }

  [[nodiscard]] std::vector<RankBuffers> buffers() {
    std::vector<RankBuffers> views;
    for (int rank = 0; rank < 2; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      views.push_back({.a = {},
                       .b = std::as_bytes(std::span(tables[index])),
                       .c = std::as_writable_bytes(std::span(results[index])),
                       .bags = {.offsets = std::as_bytes(std::span(offsets)),
                                .indices = std::as_bytes(std::span(indices)),
                                .type = sizeof(Number) == 4 ? IndexType::I32 : IndexType::I64}});
    }
    return views;
  }
};

std::unique_ptr<Communicator> open_two() { return host::host_backend().open({}).value(); }

Result<std::unique_ptr<Prepared>> prepare(const OpSpec& op, std::span<const RankBuffers> buffers,
                                          Communicator& communicator) {
  return testing::prepare_cut(communicator, op, {{1, 1}}, {"direct", {}}, buffers, {});
}

template <typename Number>
void expect_features(Pooling pooling, const std::vector<std::vector<float>>& expected) {
  auto communicator = open_two();
  SmallProblem<Number> problem;
  const auto buffers = problem.buffers();
  prepare(small_op(pooling), buffers, *communicator).value()->run(RunMode::Fused);
  EXPECT_EQ(problem.results, expected);
  const auto found = verify_result(small_op(pooling), buffers, {{1, 1}}, 1);
  EXPECT_TRUE(found.ok()) << found.error().text();
}

// A sample's features come from rank 0's two tables, then from rank 1's. Sample 0 names row 0: 1, 11, 101, 111. Sample
// 1 names no row. Sample 2 names rows 1 and 2: 2 + 3, 12 + 13, 102 + 103, 112 + 113. Sample 3 names rows 2, 2 and 0: 3
// + 3 + 1, 13 + 13 + 11, and so on.
const std::vector<std::vector<float>> kSums{
    {1, -1, 11, -11, 101, -101, 111, -111, 0, 0, 0, 0, 0, 0, 0, 0},
    {5, -5, 25, -25, 205, -205, 225, -225, 7, -7, 37, -37, 307, -307, 337, -337}};

TEST(Pooling, FeaturesStandSampleAfterSampleWithRank0sTablesFirst) {
  expect_features<std::int64_t>(Pooling::Sum, kSums);
}

TEST(Pooling, IndicesMayHave32Bits) { expect_features<std::int32_t>(Pooling::Sum, kSums); }

TEST(Pooling, MeanDividesByTheLengthAndLeavesEmptyBagsZero) {
  auto means = kSums;
  for (std::size_t i = 0; i < 8; ++i) means[1][i] /= 2;
  for (std::size_t i = 8; i < 16; ++i) means[1][i] /= 3;
  expect_features<std::int64_t>(Pooling::Mean, means);
}

class PoolingRefusal : public ::testing::Test {
 protected:
  void expect_refused(const std::string& text) {
    const auto refused = prepare(small_op(Pooling::Sum), problem_.buffers(), *communicator_);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
    EXPECT_THAT(refused.error().text(), ::testing::HasSubstr(text));
  }

  std::unique_ptr<Communicator> communicator_ = open_two();
  SmallProblem<std::int64_t> problem_;
};

TEST_F(PoolingRefusal, RowsThatATableDoesNotHave) {
  problem_.indices[9] = 3; // the second table's last bag starts here
  expect_refused("rank 0, table 1, sample 3: names row 3; a table has rows 0 to 2");
  problem_.indices[9] = -1;
  expect_refused("rank 0, table 1, sample 3: names row -1");
  problem_.indices[9] = std::int64_t{1} << 40;
  expect_refused("names row 1099511627776");
}

TEST_F(PoolingRefusal, OffsetsThatDoNotAscendWithinTheIndices) {
  problem_.offsets[3] = 0; // bags start at 0 1 1 3 6 7 7 9 and end at 12
  expect_refused("table 0, sample 2: the offsets 1 and 0 do not ascend within the 12 indices");
  problem_.offsets[3] = 3;
  problem_.offsets[0] = 1;
  expect_refused("the offsets start at 1, not at 0");
  problem_.offsets[0] = 0;
  problem_.offsets[8] = 11;
  expect_refused("table 1, sample 3: the offsets end at 11, not at the number of indices, 12");
  problem_.offsets[8] = 13;
  expect_refused("the offsets 9 and 13 do not ascend within the 12 indices");
  problem_.offsets[8] = 12;
  problem_.offsets[0] = -1;
  expect_refused("the offsets -1 and 1 do not ascend");
}

TEST_F(PoolingRefusal, RowsThatBecomeIllegalAfterwardsFailTheRunByName) {
  const auto buffers = problem_.buffers();
  const auto prepared = prepare(small_op(Pooling::Sum), buffers, *communicator_).value();
  problem_.indices[0] = 7;
  try {
    prepared->run(RunMode::Fused);
    ADD_FAILURE() << "an illegal row was read";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("table 0, sample 0: names row 7"));
  }
}

TEST(Pooling, AnEmptyTableLookupForTheWholeBatchGivesZeros) {
  auto communicator = open_two();
  SmallProblem<std::int64_t> problem;
  problem.indices.clear();
  std::ranges::fill(problem.offsets, 0);
  const auto buffers = problem.buffers();
  prepare(small_op(Pooling::Mean), buffers, *communicator).value()->run(RunMode::Fused);
  for (const auto& rank : problem.results) EXPECT_EQ(rank, std::vector<float>(16, 0.0F));
}

// Rows are read as whole vectors and a remainder; the widths cover both.
TEST(Pooling, TablesOfEveryWidth) {
  auto communicator = open_two();
  for (const auto dtype : {planner::DType::F32, planner::DType::Bf16, planner::DType::F16}) {
    for (const std::int64_t columns : {1, 3, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 111, 112, 128, 1100}) {
      OpSpec op{OpKind::EmbeddingAllToAll, 12, 2 * columns, 5, dtype, 2};
      op.tables = {.table_count = 2, .row_count = 40, .pooling = Pooling::Mean};
      SCOPED_TRACE(op.text());
      RandomProblem problem(op, static_cast<std::uint64_t>(columns));
      problem.poison();
      testing::prepare_cut(*communicator, op, {{2, 4}}, {"direct", {}}, problem.buffers(), {})
          .value()
          ->run(RunMode::Fused);
      const auto found = verify_result(op, problem.buffers(), {{2, 4}}, 1);
      EXPECT_TRUE(found.ok()) << found.error().text();
    }
  }
}

TEST(Pooling, TheCheckOfResultsFindsAWrongFeature) {
  auto communicator = open_two();
  OpSpec op{OpKind::EmbeddingAllToAll, 48, 24, 5, planner::DType::F16, 2};
  op.tables = {.table_count = 3, .row_count = 50, .pooling = Pooling::Mean};
  RandomProblem problem(op, 3);
  const auto prepared = testing::prepare_cut(*communicator, op, {{10, 14}}, {"direct", {}}, problem.buffers(), {});
  prepared.value()->run(RunMode::Fused);
  ASSERT_TRUE(verify_result(op, problem.buffers(), {{10, 14}}, 1).ok());
  // Flips the sign in row 5 and column 24 + 9 of rank 1: sample 24 + 5, feature 1 of table 1 of rank 1.
  std::byte& high = problem.buffers()[1].c[(5 * 48 + 33) * 2 + 1];
  high ^= std::byte{0x80};
  const auto wrong = verify_result(op, problem.buffers(), {{10, 14}}, 1);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message, ::testing::HasSubstr("rank 1, row 5, column 33"));
  EXPECT_THAT(wrong.error().message, ::testing::HasSubstr("sample 29 of table 1 of rank 1"));
  high ^= std::byte{0x80};
  problem.poison();
  EXPECT_THAT(verify_result(op, problem.buffers(), {{10, 14}}, 1).error().message,
              ::testing::HasSubstr("was not written"));
}

TEST(Pooling, VirtualComputeIsCheckedByWhatWasExchanged) {
  auto communicator = host::host_backend().open(testing::host_options(2, "1Gbit,10us", "1Gflops,5us")).value();
  OpSpec op{OpKind::EmbeddingAllToAll, 40, 12, 6, planner::DType::F32, 2};
  op.tables = {.table_count = 3, .row_count = 10};
  RandomProblem problem(op, 3);
  const auto prepared = testing::prepare_cut(*communicator, op, {{5, 15}}, {"direct", {}}, problem.buffers(), {});
  const auto& record = prepared.value()->run(RunMode::Fused);
  // 5 us, and 2 * 5 samples * 12 features * 6 additions at one per ns, make 5.72 us.
  EXPECT_EQ(record.ranks[0].compute[0].end, std::chrono::nanoseconds(5720));
  EXPECT_TRUE(verify_exchange(op, prepared.value()->intermediates(), problem.buffers(), {{5, 15}}).ok());
  problem.buffers()[0].c[3] ^= std::byte{0x10};
  EXPECT_EQ(verify_exchange(op, prepared.value()->intermediates(), problem.buffers(), {{5, 15}}).error().code,
            ErrorCode::Mismatch);
}

} // namespace
} // namespace mc2::executor::pooling_device_test
