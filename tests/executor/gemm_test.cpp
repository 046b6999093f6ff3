#include "lanes/gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "mc2/executor/verify.hpp"
#include "support/oracle.hpp"

namespace mc2::executor::lanes::gemm_test {
namespace {

/// Multiplies the rows and columns of each shape and compares the product with `expected`, [m, n].
void expect_products(const planner::OpSpec& op, Gemm& gemm, std::span<const std::byte> a,
                     std::span<const GemmShape> shapes, std::span<const double> expected) {
  for (const GemmShape& shape : shapes) {
    std::vector<std::byte> product(
        static_cast<std::size_t>(shape.rows * shape.columns * planner::size_bytes(op.dtype)));
    gemm.multiply({.a = a.data(), .product = product.data()}, shape);
    for (std::int64_t i = 0; i < shape.rows * shape.columns; ++i) {
      const std::int64_t at = i / shape.columns * op.n + shape.first_column + i % shape.columns;
      ASSERT_NEAR(testing::element(op.dtype, product, i), expected[static_cast<std::size_t>(at)],
                  testing::allowed_error(op));
    }
  }
}

TEST(Gemm, MultipliesEveryBlockLengthWithOnePackedCopyOfB) {
  planner::OpSpec op{.kind = planner::OpKind::MatmulAllReduce,
                     .m = 200,
                     .n = 96,
                     .k = 80,
                     .dtype = planner::DType::F32,
                     .world_size = 2};
  const RandomProblem problem(op, 5);
  const RankBuffers& rank = problem.buffers()[1];
  std::vector<GemmShape> shapes;
  for (const std::int64_t rows : {200, 1, 64, 37, 64}) shapes.push_back({rows, 0, op.n});
  Gemm gemm(op, 1, {.b = rank.b}, shapes);
  EXPECT_EQ(gemm.packed_layout_count(), 1U);
  std::vector<std::byte> product(static_cast<std::size_t>(op.m * op.n * 4));
  for (const GemmShape& shape : shapes) {
    op.m = shape.rows;
    gemm.multiply({.a = rank.a.data(), .product = product.data()}, shape);
    const auto expected = testing::naive_matmul_all_reduce(op, std::span(&rank, 1));
    for (std::int64_t i = 0; i < shape.rows * op.n; ++i) {
      ASSERT_NEAR(testing::element(op.dtype, product, i), expected[static_cast<std::size_t>(i)],
                  testing::allowed_error(op));
    }
  }
}

TEST(Gemm, AnotherMatrixSharesItsKernelsAndIsPackedOnce) {
  const planner::OpSpec op{.kind = planner::OpKind::MatmulAllReduce,
                           .m = 200,
                           .n = 96,
                           .k = 80,
                           .dtype = planner::DType::F32,
                           .world_size = 2};
  const RandomProblem problem(op, 5);
  const RankBuffers &one = problem.buffers()[0], &other = problem.buffers()[1];
  const std::vector<GemmShape> shapes{{200, 0, op.n}, {37, 0, op.n}, {1, 0, op.n}};
  Gemm first(op, 0, {.b = one.b}, shapes);
  Gemm second(op, 0, {.b = other.b}, shapes, &first);
  EXPECT_EQ(second.packed_layout_count(), 1U);
  for (const auto& [gemm, rank] : {std::pair{&first, &one}, {&second, &other}, {&first, &one}}) {
    std::vector<std::byte> product(static_cast<std::size_t>(op.m * op.n * 4));
    gemm->multiply({.a = rank->a.data(), .product = product.data()}, shapes.front());
    const auto expected = testing::naive_matmul_all_reduce(op, std::span(rank, 1));
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(testing::element(planner::DType::F32, product, static_cast<std::int64_t>(i)), expected[i], 1e-4);
  }
}

TEST(Gemm, MultipliesColumnsOfBEachPackedOnce) {
  const planner::OpSpec op{.kind = planner::OpKind::MatmulAllReduce,
                           .m = 5,
                           .n = 300,
                           .k = 77,
                           .dtype = planner::DType::F32,
                           .world_size = 2};
  const RandomProblem problem(op, 6);
  const RankBuffers& rank = problem.buffers()[0];
  const auto expected = testing::naive_matmul_all_reduce(op, std::span(&rank, 1));
  const std::vector<GemmShape> shapes{{5, 0, 128}, {5, 128, 128}, {5, 256, 43}, {5, 299, 1}};
  Gemm gemm(op, 0, {.b = rank.b}, shapes);
  EXPECT_EQ(gemm.packed_layout_count(), 4U);
  expect_products(op, gemm, rank.a, shapes, expected);
}

// CPUs with AMX multiply whole tiles. Rows of 126 and 2002 bytes do not fill their last tile; the NaN after the last
// row shows whether a tile reads beyond the matrix.
TEST(Gemm, FillsWholeTilesWithZerosAndReadsNoOtherRow) {
  if (!gemm_isa_has_bf16()) GTEST_SKIP() << "this CPU multiplies no bf16";
  for (const std::int64_t k : {63, 1001}) {
    planner::OpSpec op{.kind = planner::OpKind::MatmulAllReduce,
                       .m = 66,
                       .n = 80,
                       .k = k,
                       .dtype = planner::DType::Bf16,
                       .world_size = 2};
    const RandomProblem problem(op, 5);
    const RankBuffers& rank = problem.buffers()[1];
    std::vector<std::byte> a(rank.a.begin(), rank.a.end());
    op.m = 65;
    std::fill(a.begin() + op.m * k * 2, a.end(), std::byte{0xFF});
    const std::vector<GemmShape> shapes{{op.m, 0, 48}, {op.m, 48, 32}, {3, 0, op.n}};
    Gemm gemm(op, 1, {.b = rank.b, .fills_tiles = true}, shapes);
    const auto expected = testing::naive_matmul_all_reduce(op, std::span(&rank, 1));
    expect_products(op, gemm, a, shapes, expected);
  }
}

TEST(Gemm, NamesItsLibraryAndInstructionSet) {
  EXPECT_FALSE(gemm_library_version().empty());
  EXPECT_FALSE(gemm_isa().empty());
}

} // namespace
} // namespace mc2::executor::lanes::gemm_test
