#include "mc2/planner/cutting.hpp"

#include <gtest/gtest.h>

#include "support/models.hpp"

namespace mc2::planner::cutting_test {
namespace {

Fingerprint machine_of(const char* backend) { return {.fields = {{"backend", backend}}}; }

/// The plan of a caller that chose the blocks itself, without a model, on a machine with this backend.
Plan plan_on(const char* backend, std::vector<std::int64_t> block_rows) {
  std::int64_t m = 0;
  for (const std::int64_t rows : block_rows) m += rows;
  return unpredicted_plan(testing::all_reduce_op(m, 64, 64, DType::F32, 2), machine_of(backend), {},
                          Cut{std::move(block_rows)})
      .value();
}

TEST(DefaultOptionsOn, CutsAtTheBackendsAlignment) {
  for (const BackendAlignment& entry : default_alignments()) {
    const Fingerprint machine = {.fields = {{"backend", std::string(entry.backend)}}};
    PlanOptions expected;
    expected.alignment = expected.min_block_rows = entry.alignment;
    EXPECT_EQ(default_options_on(machine), expected) << entry.backend;
  }
}

TEST(DefaultOptionsOn, IsPlanOptionsOwnForOtherMachines) {
  EXPECT_EQ(default_options_on(machine_of("abacus")), PlanOptions());
  EXPECT_EQ(default_options_on({}), PlanOptions());
}

TEST(LikelyLimits, AreTheBackendsWhereBlocksAreMultiplesOfItsAlignment) {
  // The host backend cuts at multiples of 64, and 128 is such a multiple. The last block takes the rest, so its 40 rows
  // only say that a block may be as short as that.
  const PlanOptions limits = likely_limits(plan_on("host", {128, 128, 40}));
  EXPECT_EQ(limits.alignment, 64);
  EXPECT_EQ(limits.min_block_rows, 40);
  EXPECT_EQ(limits.max_block_count, PlanOptions().max_block_count);
}

TEST(LikelyLimits, ShowInTheBlocksWhereTheyAreNoMultiples) {
  // gcd(64, 96) = 32: the blocks show a finer alignment than the backend's.
  const PlanOptions limits = likely_limits(plan_on("host", {96, 96, 96}));
  EXPECT_EQ(limits.alignment, 32);
  EXPECT_EQ(limits.min_block_rows, 32);
}

TEST(LikelyLimits, AreTheBackendsForAnUncutPlan) { EXPECT_EQ(likely_limits(plan_on("host", {100})).alignment, 64); }

TEST(LikelyLimits, HoldAsManyBlocksAsThePlanHas) {
  EXPECT_EQ(likely_limits(plan_on("host", std::vector<std::int64_t>(100, 64))).max_block_count, 100);
}

TEST(LikelyLimits, AreOfSixteenBlocksForPyTorchsGroups) {
  EXPECT_EQ(likely_limits(plan_on("torch/nccl", {128, 128})).max_block_count, 16);
}

TEST(LikelyLimits, AreWhatIsSaid) {
  const PlanOptions limits =
      likely_limits(plan_on("host", {128, 128}), {.alignment = 16, .min_block_rows = 48, .max_block_count = 7});
  EXPECT_EQ(limits.alignment, 16);
  EXPECT_EQ(limits.min_block_rows, 48);
  EXPECT_EQ(limits.max_block_count, 7);
}

} // namespace
} // namespace mc2::planner::cutting_test
