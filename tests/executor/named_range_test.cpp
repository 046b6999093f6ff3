#include "named_range.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "mc2/executor/backend.hpp"
#include "mc2/executor/verify.hpp"
#include "support/prepare.hpp"

namespace mc2::executor {
namespace {

int ask(const char* function) {
  void* const tool = dlopen(MC2_RANGE_COUNTER, RTLD_NOW);
  return reinterpret_cast<int (*)()>(dlsym(tool, function))();
}

TEST(NamedRange, LanesShowTheirRunsAndBlocksToATool) {
  ASSERT_EQ(::setenv("NVTX_INJECTION64_PATH", MC2_RANGE_COUNTER, 1), 0); // NVTX reads it at the first range
  const planner::OpSpec op{planner::OpKind::MatmulAllReduce, 96, 16, 16, planner::DType::F32, 2};
  RandomProblem problem(op, 1);
  const auto communicator = find_backend("host").value()->open({}).value();
  const auto prepared =
      testing::prepare_cut(*communicator, op, {{16, 16, 64}}, {"direct", {}}, problem.buffers()).value();
  const int lanes_before = ask("mc2_lane_ranges"), blocks_before = ask("mc2_block_ranges");
  prepared->run(RunMode::Fused);
  EXPECT_EQ(ask("mc2_lane_ranges") - lanes_before, 4);       // 2 ranks x 2 lanes
  EXPECT_EQ(ask("mc2_block_ranges") - blocks_before, 4 * 3); // 3 blocks in each lane
  EXPECT_EQ(ask("mc2_open_ranges"), 0);
}

} // namespace
} // namespace mc2::executor
