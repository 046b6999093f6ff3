#include "checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mc2/executor/verify.hpp"

namespace mc2::executor::checks_test {
namespace {

using planner::OpKind;
using planner::OpSpec;
using ::testing::HasSubstr;

OpSpec op(std::int64_t m, planner::DType dtype = planner::DType::F32, planner::Epilogue epilogue = {}) {
  OpSpec spec{OpKind::MatmulAllReduce, m, 40, 8, dtype, 2};
  spec.epilogue = epilogue;
  return spec;
}

/// The message with which buffers are refused after `change` has altered those of rank 1.
template <typename Change>
std::string refusal_of(const OpSpec& spec, std::vector<RankBuffers> buffers, const Change& change) {
  change(buffers[1]);
  return check_buffers(spec, buffers).error().message;
}

TEST(CheckBuffers, AsksForEpilogueAndScalesWhereTheOperatorHasThem) {
  const OpSpec spec = op(8, planner::DType::I8, {.has_bias = true, .has_residual = true});
  const RandomProblem problem(spec, 1);
  const std::vector<RankBuffers> good(problem.buffers().begin(), problem.buffers().end());
  EXPECT_TRUE(check_buffers(spec, good));
  const auto refusal = [&](auto&& change) { return refusal_of(spec, good, change); };
  EXPECT_THAT(refusal([](RankBuffers& rank) { rank.bias = {}; }),
              HasSubstr("rank 1 bias has 0 bytes; [1, 40] needs 80"));
  EXPECT_THAT(refusal([](RankBuffers& rank) { rank.b_scales = rank.b_scales.first(4); }),
              HasSubstr("rank 1 scales of B has 4 bytes; [1, 40] needs 160"));
  EXPECT_THAT(refusal([](RankBuffers& rank) { rank.a_scales = {}; }), HasSubstr("rank 1 scales of A"));
  // The residual must not be C itself, because a matmul keeps intermediate sums in C.
  EXPECT_THAT(refusal([](RankBuffers& rank) { rank.residual = rank.c; }),
              HasSubstr("rank 1 C overlaps rank 1 residual; what a run writes must overlap nothing"));
}

TEST(CheckBuffers, TakesAGatheredAOfTheRightSizeWhereOneIsGathered) {
  OpSpec spec = op(8);
  spec.kind = planner::OpKind::AllGatherMatmul;
  const RandomProblem problem(spec, 1, {.wants_gathered_a = true});
  const std::vector<RankBuffers> good(problem.buffers().begin(), problem.buffers().end());
  EXPECT_TRUE(check_buffers(spec, good));
  const auto refusal = [&](auto&& change) { return refusal_of(spec, good, change); };
  EXPECT_THAT(refusal([](RankBuffers& rank) { rank.gathered_a = rank.gathered_a.first(64); }),
              HasSubstr("rank 1 gathered A has 64 bytes"));
  EXPECT_THAT(refusal([&](RankBuffers& rank) { rank.gathered_a = good[0].gathered_a; }),
              HasSubstr("rank 0 gathered A overlaps rank 1 gathered A; what a run writes must overlap nothing"));
  EXPECT_THAT(refusal([](RankBuffers& rank) { rank.a = rank.gathered_a.first(rank.a.size()); }), HasSubstr("overlaps"));
  auto some = good;
  some[0].gathered_a = {};
  EXPECT_TRUE(check_buffers(spec, some)); // each rank decides for itself

  const OpSpec reduced = op(8);
  const RandomProblem other(reduced, 1);
  std::vector<RankBuffers> asking(other.buffers().begin(), other.buffers().end());
  asking[1].gathered_a = good[1].gathered_a;
  EXPECT_THAT(check_buffers(reduced, asking).error().message,
              HasSubstr("rank 1 wants the gathered A of matmul_all_reduce; only all_gather_matmul and "
                        "all_gather_grouped_matmul gather one"));
}

} // namespace
} // namespace mc2::executor::checks_test
