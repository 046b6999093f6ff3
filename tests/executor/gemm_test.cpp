#include "backends/host/gemm.hpp"

#include <gtest/gtest.h>

#include "mc2/executor/verify.hpp"
#include "support/oracle.hpp"

namespace mc2::executor::host {
namespace {

TEST(Gemm, MultipliesEveryBlockLengthWithOnePackedCopyOfB) {
  planner::OpSpec op{.kind = planner::OpKind::MatmulAllReduce,
                     .m = 200,
                     .n = 96,
                     .k = 80,
                     .dtype = planner::DType::F32,
                     .world_size = 2};
  const RandomProblem problem(op, 5);
  const RankBuffers& rank = problem.buffers()[1];
  const std::int64_t lengths[] = {200, 1, 64, 37, 64};
  Gemm gemm(op, 1, rank.b, lengths);
  EXPECT_EQ(gemm.packed_layout_count(), 1U);
  std::vector<std::byte> product(static_cast<std::size_t>(op.m * op.n * 4));
  for (const std::int64_t rows : lengths) {
    op.m = rows;
    gemm.multiply(rank.a.data(), product.data(), rows);
    const auto expected = testing::naive_matmul_all_reduce(op, std::span(&rank, 1));
    for (std::int64_t i = 0; i < rows * op.n; ++i) {
      ASSERT_NEAR(testing::element(op.dtype, product, i), expected[static_cast<std::size_t>(i)],
                  testing::allowed_error(op));
    }
  }
}

TEST(Gemm, NamesItsLibraryAndInstructionSet) {
  EXPECT_FALSE(gemm_library_version().empty());
  EXPECT_FALSE(gemm_isa().empty());
}

} // namespace
} // namespace mc2::executor::host
