#include "mc2/executor/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "bf16.hpp"
#include "f16.hpp"
#include "support/oracle.hpp"

namespace mc2::executor::verify_test {
namespace {

using planner::DType;
using planner::OpSpec;
using ::testing::HasSubstr;

OpSpec op(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::F32, int world_size = 2) {
  return {.kind = planner::OpKind::MatmulAllReduce, .m = m, .n = n, .k = k, .dtype = dtype, .world_size = world_size};
}

void store(const OpSpec& spec, const RankBuffers& rank, std::int64_t index, double value) {
  const auto narrow = static_cast<float>(value);
  if (spec.dtype == DType::F32) {
    std::memcpy(rank.c.data() + index * 4, &narrow, 4);
  } else if (spec.dtype == DType::F16) {
    const F16 shorter = to_f16(narrow);
    std::memcpy(rank.c.data() + index * 2, &shorter, 2);
  } else {
    const Bf16 shorter = to_bf16(narrow);
    std::memcpy(rank.c.data() + index * 2, &shorter, 2);
  }
}

/// A problem in which every C holds the naive result, rounded once to the type.
RandomProblem solved(const OpSpec& spec) {
  RandomProblem problem(spec, 9);
  const auto expected = testing::naive_results(spec, problem.buffers());
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    for (std::size_t i = 0; i < expected[rank].size(); ++i) {
      store(spec, problem.buffers()[rank], static_cast<std::int64_t>(i), expected[rank][i]);
    }
  }
  return problem;
}

std::string complaint(const OpSpec& spec, const RandomProblem& problem, const planner::Cut& cut) {
  const auto found = verify_result(spec, problem.buffers(), cut, 1);
  if (found.ok()) return "";
  EXPECT_EQ(found.error().code, ErrorCode::Mismatch);
  return found.error().message;
}

TEST(Verify, AcceptsTheRoundedResultInEveryType) {
  for (const DType dtype : {DType::F32, DType::F16, DType::Bf16}) {
    const OpSpec spec = op(40, 30, 200, dtype, 3);
    const RandomProblem problem = solved(spec);
    const auto found = verify_result(spec, problem.buffers(), {{10, 30}}, 1);
    ASSERT_TRUE(found.ok()) << found.error().text();
    EXPECT_EQ(found.value().element_count, 3 * 40 * 30);
    EXPECT_EQ(found.value().exact_row_count, 40);
    EXPECT_LT(found.value().worst_error_ratio, 1);
    EXPECT_THAT(found.value().text, HasSubstr("40 of 40 rows"));
  }
}

TEST(Verify, FindsOneWrongElementAndNamesIt) {
  for (const DType dtype : {DType::F32, DType::F16, DType::Bf16}) {
    const OpSpec spec = op(40, 30, 50, dtype);
    const RandomProblem problem = solved(spec);
    for (const RankBuffers& rank : problem.buffers()) {
      store(spec, rank, 17 * 30 + 5, testing::element(dtype, rank.c, 17 * 30 + 5) + 1);
    }
    EXPECT_THAT(complaint(spec, problem, {{40}}), HasSubstr("rank 0, row 17, column 5: is "));
  }
}

// 2 * 1024 * 64 * 150 = 19.7e6 multiply-adds are too many to compare every row element by element.
OpSpec sampled_op() { return op(1024, 64, 150); }

TEST(Verify, FindsOneWrongElementInARowThatIsNotSampled) {
  const OpSpec spec = sampled_op();
  const RandomProblem problem = solved(spec);
  const auto clean = verify_result(spec, problem.buffers(), {{1024}}, 1);
  ASSERT_TRUE(clean.ok()) << clean.error().text();
  EXPECT_LE(clean.value().exact_row_count, 10); // the first, the last and 8 at random
  const std::int64_t at = 700 * 64 + 37;
  for (const RankBuffers& rank : problem.buffers()) {
    store(spec, rank, at, testing::element(spec.dtype, rank.c, at) + 1);
  }
  const auto found = complaint(spec, problem, {{1024}});
  EXPECT_THAT(found, HasSubstr("rank 0, row 700, column 37"));
  EXPECT_THAT(found, HasSubstr("projection"));
}

TEST(Verify, ComparesTheRowsAtBlockEdgesElementByElement) {
  const OpSpec spec = sampled_op();
  const RandomProblem problem = solved(spec);
  // One element may be off by 4 * 2^-24 * (sqrt(150) + 2) * 2 * |a| |b|, with |a| |b| near 150 / 3: by 3.4e-4. A
  // projected row may be off by sqrt(64) times that, 2.7e-3. So an error of 1e-3 is found only where elements are
  // compared.
  const std::int64_t at = 700 * 64 + 3;
  for (const RankBuffers& rank : problem.buffers()) {
    store(spec, rank, at, testing::element(spec.dtype, rank.c, at) + 1e-3);
  }
  EXPECT_THAT(complaint(spec, problem, {{700, 324}}), HasSubstr("row 700, column 3"));
  EXPECT_EQ(complaint(spec, problem, {{512, 512}}), "");
}

TEST(Verify, FindsPoisonThatWasNeverOverwritten) {
  for (const DType dtype : {DType::F32, DType::F16, DType::Bf16}) {
    const OpSpec spec = op(6, 4, 3, dtype);
    RandomProblem problem(spec, 1);
    EXPECT_THAT(complaint(spec, problem, {{6}}), HasSubstr("rank 0, row 0, column 0: was not written"));
    RandomProblem almost = solved(spec);
    const auto c = almost.buffers()[1].c;
    std::memcpy(c.data(), problem.buffers()[0].c.data(), static_cast<std::size_t>(planner::size_bytes(dtype)));
    EXPECT_THAT(complaint(spec, almost, {{6}}), HasSubstr("rank 1, row 0, column 0: was not written"));
  }
}

TEST(Verify, FindsInfinity) {
  const OpSpec spec = op(6, 4, 3);
  const RandomProblem problem = solved(spec);
  store(spec, problem.buffers()[1], 9, std::numeric_limits<double>::infinity());
  EXPECT_THAT(complaint(spec, problem, {{6}}), HasSubstr("rank 1, row 2, column 1: is inf"));
}

TEST(Verify, RefusesAResultWhoseOracleIsNoNumber) {
  const OpSpec spec = op(6, 4, 3);
  const RandomProblem problem = solved(spec);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::size_t second_row_of_a = 3 * sizeof nan;
  std::memcpy(const_cast<std::byte*>(problem.buffers()[0].a.data()) + second_row_of_a, &nan, sizeof nan);
  EXPECT_THAT(complaint(spec, problem, {{6}}), HasSubstr("rank 0, row 1, column 0: is "));
}

TEST(Verify, FindsRanksThatDifferByOneBit) {
  const OpSpec spec = op(6, 4, 3, DType::F32, 3);
  const RandomProblem problem = solved(spec);
  problem.buffers()[2].c[4 * 9] ^= std::byte{1};
  EXPECT_THAT(complaint(spec, problem, {{6}}), HasSubstr("ranks 0 and 2 differ in column 1"));
}

TEST(Verify, BlamesTheRankThatIsWrong) {
  const OpSpec spec = op(6, 4, 3);
  const RandomProblem first = solved(spec);
  store(spec, first.buffers()[0], 9, 50);
  EXPECT_THAT(complaint(spec, first, {{6}}), HasSubstr("rank 0, row 2, column 1: is 50"));
  const RandomProblem second = solved(spec);
  store(spec, second.buffers()[1], 9, 50);
  EXPECT_THAT(complaint(spec, second, {{6}}), HasSubstr("rank 1, row 2, column 1: is 50"));
}

TEST(Verify, FindsRowsThatLackARank) {
  const OpSpec spec = sampled_op();
  const RandomProblem problem = solved(spec);
  const auto partial = testing::naive_matmul_all_reduce(spec, problem.buffers().first(1));
  for (std::int64_t i = 512 * 64; i < 516 * 64; ++i) {
    for (const RankBuffers& rank : problem.buffers()) store(spec, rank, i, partial[static_cast<std::size_t>(i)]);
  }
  EXPECT_THAT(complaint(spec, problem, {{1024}}), HasSubstr("row 51"));
}

OpSpec op_of(planner::OpKind kind, std::int64_t m, DType dtype, int world_size) {
  OpSpec spec = op(m, 64, 150, dtype, world_size);
  spec.kind = kind;
  return spec;
}

TEST(Verify, AcceptsTheRoundedResultOfKindsWithShards) {
  for (const auto kind : {planner::OpKind::MatmulReduceScatter, planner::OpKind::AllGatherMatmul,
                          planner::OpKind::MatmulAllToAll, planner::OpKind::AllToAllMatmul}) {
    for (const DType dtype : {DType::F32, DType::F16, DType::Bf16}) {
      for (const std::int64_t m : {36, 900}) { // compares all rows, or a sample of them
        const OpSpec spec = op_of(kind, m, dtype, 3);
        const auto found = verify_result(spec, solved(spec).buffers(), {{5, m / 3 - 5}}, 1);
        ASSERT_TRUE(found.ok()) << found.error().text();
        EXPECT_EQ(found.value().element_count, 3 * operand_shapes(spec).c.element_count());
      }
    }
  }
}

// A product that is rounded before it meets a bias of nearly its size is far off. cuBLASLt does so where rows of A or
// of C are no whole number of 16 bytes.
TEST(Verify, AllowsAProductToBeRoundedBeforeItsBiasWhereRowsAreOdd) {
  const auto complaint_about = [](std::int64_t n, std::int64_t k) {
    OpSpec spec = op(8, n, k, DType::Bf16);
    spec.kind = planner::OpKind::AllGatherMatmul;
    const auto products = testing::naive_results(spec, RandomProblem(spec, 9).buffers()); // the same A and B as below
    spec.epilogue.has_bias = true;
    const RandomProblem problem(spec, 9);
    for (std::size_t rank = 0; rank < products.size(); ++rank) {
      const RankBuffers& buffers = problem.buffers()[rank];
      for (std::size_t i = 0; i < products[rank].size(); ++i) {
        const std::size_t column = i % static_cast<std::size_t>(n);
        const Bf16 bias = to_bf16(-1.25F * static_cast<float>(products[rank][column]));
        std::memcpy(const_cast<std::byte*>(buffers.bias.data()) + column * sizeof bias, &bias, sizeof bias);
        const float rounded = to_float(to_bf16(static_cast<float>(products[rank][i])));
        store(spec, buffers, static_cast<std::int64_t>(i), rounded + to_float(bias));
      }
    }
    return complaint(spec, problem, {{4}});
  };
  EXPECT_EQ(complaint_about(8, 1), "");
  EXPECT_EQ(complaint_about(4, 8), "");
  EXPECT_THAT(complaint_about(8, 8), HasSubstr("should be"));
}

TEST(Verify, ComparesTheRowsAtBlockEdgesOfEveryShardOnEveryRank) {
  // 3 ranks with shards of 300 rows make 900 * 64 * 150 * 3 = 26e6 multiply-adds, so rows are sampled. As above, an
  // error of 1e-3 is found only where elements are compared: at the edges of the blocks of 120 and 180 rows.
  const OpSpec gather = op_of(planner::OpKind::AllGatherMatmul, 900, DType::F32, 3);
  for (const std::int64_t row : {119, 420, 719}) { // in shards 0, 1 and 2
    const RandomProblem problem = solved(gather);
    const std::int64_t at = row * 64 + 3;
    store(gather, problem.buffers()[1], at, testing::element(DType::F32, problem.buffers()[1].c, at) + 1e-3);
    EXPECT_THAT(complaint(gather, problem, {{120, 180}}), HasSubstr("rank 1, row " + std::to_string(row)));
  }
  const OpSpec scatter = op_of(planner::OpKind::MatmulReduceScatter, 900, DType::F32, 3);
  const RandomProblem problem = solved(scatter);
  const std::int64_t at = 120 * 64 + 3;
  store(scatter, problem.buffers()[2], at, testing::element(DType::F32, problem.buffers()[2].c, at) + 1e-3);
  EXPECT_THAT(complaint(scatter, problem, {{120, 180}}), HasSubstr("rank 2, row 120, column 3"));
}

TEST(Verify, FindsTheShardOfAnotherRank) {
  for (const auto kind :
       {planner::OpKind::MatmulReduceScatter, planner::OpKind::MatmulAllToAll, planner::OpKind::AllToAllMatmul}) {
    const OpSpec spec = op_of(kind, 36, DType::F32, 2);
    const RandomProblem problem = solved(spec);
    std::ranges::swap_ranges(problem.buffers()[0].c, problem.buffers()[1].c);
    EXPECT_THAT(complaint(spec, problem, {{18}}), HasSubstr("rank 0, row 0"));
  }
}

TEST(Verify, FindsRowsFromTheRightSenderInTheWrongPlace) {
  for (const auto kind : {planner::OpKind::MatmulAllToAll, planner::OpKind::AllToAllMatmul}) {
    const OpSpec spec = op_of(kind, 36, DType::F32, 3);
    const RandomProblem problem = solved(spec);
    // Each of 3 ranks gets 12 rows from each. The rows that ranks 1 and 2 sent to rank 0 are swapped.
    const std::size_t part = 12 * 64 * 4;
    const auto c = problem.buffers()[0].c;
    std::ranges::swap_ranges(c.subspan(part, part), c.subspan(2 * part, part));
    EXPECT_THAT(complaint(spec, problem, {{12}}), HasSubstr("rank 0, row 1")); // one of rows 12 to 19
  }
}

TEST(VerifyExchange, ComparesGatheredRowsWithTheirOwners) {
  const OpSpec spec = op_of(planner::OpKind::AllGatherMatmul, 6, DType::F32, 2);
  const RandomProblem problem(spec, 1);
  std::vector<std::byte> gathered;
  for (const RankBuffers& rank : problem.buffers()) gathered.insert(gathered.end(), rank.a.begin(), rank.a.end());
  auto other = gathered;
  const std::span<const std::byte> both[] = {gathered, other};
  EXPECT_TRUE(verify_exchange(spec, both, problem.buffers(), {{3}}).ok());
  other[3 * 150 * 4] ^= std::byte{1}; // rank 1's own shard is not gathered, so not compared
  EXPECT_TRUE(verify_exchange(spec, both, problem.buffers(), {{3}}).ok());
  other[(2 * 150 + 7) * 4] ^= std::byte{1};
  const auto wrong = verify_exchange(spec, both, problem.buffers(), {{3}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message, HasSubstr("rank 1, row 2, column 7"));
}

/// One row of a matrix whose rows have `row_bytes` bytes.
std::span<const std::byte> row_of(std::span<const std::byte> matrix, std::size_t row, std::size_t row_bytes) {
  return matrix.subspan(row * row_bytes, row_bytes);
}

TEST(VerifyExchange, ComparesDispatchedRowsWithTheirSenders) {
  // Each of 2 ranks has 3 rows for each: rank 0 gets rows 0 to 2 of rank 1, rank 1 gets rows 3 to 5 of rank 0. A rank's
  // rows for itself are not compared.
  const OpSpec spec = op_of(planner::OpKind::AllToAllMatmul, 6, DType::F32, 2);
  const RandomProblem problem(spec, 1);
  constexpr std::size_t kRowBytes = 150 * 4;
  std::vector<std::vector<std::byte>> received(2, std::vector<std::byte>(6 * kRowBytes));
  for (std::size_t i = 0; i < 3; ++i) {
    std::ranges::copy(row_of(problem.buffers()[1].a, i, kRowBytes), received[0].data() + (3 + i) * kRowBytes);
    std::ranges::copy(row_of(problem.buffers()[0].a, 3 + i, kRowBytes), received[1].data() + i * kRowBytes);
  }
  const std::span<const std::byte> both[] = {received[0], received[1]};
  const auto right = verify_exchange(spec, both, problem.buffers(), {{3}});
  ASSERT_TRUE(right.ok()) << right.error().text();
  EXPECT_EQ(right.value().exact_row_count, 6);
  received[1][2 * kRowBytes + 7 * 4] ^= std::byte{1};
  const auto wrong = verify_exchange(spec, both, problem.buffers(), {{3}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message,
              HasSubstr("rank 1, row 2, column 7: the received A differs from row 5 of rank 0's"));
}

TEST(VerifyExchange, ComparesCombinedRowsWithTheirSendersOwnOnesIncluded) {
  const OpSpec spec = op_of(planner::OpKind::MatmulAllToAll, 6, DType::F32, 2);
  const RandomProblem problem(spec, 1), other(spec, 2);
  constexpr std::size_t kRowBytes = 64 * 4;
  std::vector<std::vector<std::byte>> products; // any numbers serve as products
  for (const RankBuffers& rank : other.buffers()) products.emplace_back(rank.a.begin(), rank.a.begin() + 6 * kRowBytes);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < 6; ++i) {
      const auto sent = row_of(products[i / 3], rank * 3 + i % 3, kRowBytes);
      std::ranges::copy(sent, problem.buffers()[rank].c.data() + i * kRowBytes);
    }
  }
  const std::span<const std::byte> both[] = {products[0], products[1]};
  const auto right = verify_exchange(spec, both, problem.buffers(), {{3}});
  ASSERT_TRUE(right.ok()) << right.error().text();
  EXPECT_EQ(right.value().exact_row_count, 12);
  problem.buffers()[0].c[kRowBytes + 5 * 4] ^= std::byte{1};
  const auto wrong = verify_exchange(spec, both, problem.buffers(), {{3}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message, HasSubstr("rank 0, row 1, column 5: C differs from row 1 of rank 0's product"));
}

TEST(VerifyExchange, AcceptsTheSumAndFindsOneWrongElement) {
  const OpSpec spec = op(5, 4, 1);
  RandomProblem problem(spec, 1);
  const std::vector<float> ones(20, 1.0F);
  const auto bytes = std::as_bytes(std::span(ones));
  const std::span<const std::byte> partials[] = {bytes, bytes};
  for (const RankBuffers& rank : problem.buffers()) {
    for (std::int64_t i = 0; i < 20; ++i) store(spec, rank, i, 2.0);
  }
  EXPECT_TRUE(verify_exchange(spec, partials, problem.buffers(), {{4}}).ok());
  store(spec, problem.buffers()[1], 7, 2.0001);
  const auto wrong = verify_exchange(spec, partials, problem.buffers(), {{4}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message, HasSubstr("rank 1, row 1, column 3"));
  problem.poison();
  EXPECT_THAT(verify_exchange(spec, partials, problem.buffers(), {{4}}).error().message, HasSubstr("was not written"));
}

TEST(RandomProblem, IsReproducibleAndItsNumbersAreInRange) {
  for (const DType dtype : {DType::F32, DType::F16, DType::Bf16}) {
    const OpSpec spec = op(30, 20, 10, dtype);
    const RandomProblem first(spec, 4);
    const RandomProblem second(spec, 4);
    const RandomProblem other(spec, 5);
    const auto a = first.buffers()[0].a;
    EXPECT_EQ(std::memcmp(a.data(), second.buffers()[0].a.data(), a.size()), 0);
    EXPECT_NE(std::memcmp(a.data(), other.buffers()[0].a.data(), a.size()), 0);
    EXPECT_NE(std::memcmp(a.data(), first.buffers()[1].a.data(), a.size()), 0);
    double low = 1;
    double high = -1;
    for (std::int64_t i = 0; i < 300; ++i) {
      low = std::min(low, testing::element(dtype, a, i));
      high = std::max(high, testing::element(dtype, a, i));
    }
    EXPECT_GE(low, -1.0);
    EXPECT_LT(low, -0.9);
    EXPECT_LT(high, 1.0);
    EXPECT_GT(high, 0.9);
  }
}

TEST(RandomProblem, StartsPoisonedAndRefillsOnlyA) {
  const OpSpec spec = op(3, 2, 4);
  RandomProblem problem(spec, 4);
  EXPECT_TRUE(std::isnan(testing::element(spec.dtype, problem.buffers()[1].c, 5)));
  const RandomProblem original(spec, 4);
  problem.refill_a(5);
  const auto& rank = problem.buffers()[0];
  EXPECT_NE(std::memcmp(rank.a.data(), original.buffers()[0].a.data(), rank.a.size()), 0);
  EXPECT_EQ(std::memcmp(rank.b.data(), original.buffers()[0].b.data(), rank.b.size()), 0);
}

} // namespace
} // namespace mc2::executor::verify_test
