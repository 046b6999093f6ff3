#include "mc2/planner/block_lengths.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "support/models.hpp"

namespace mc2::planner::block_lengths_test {
namespace {

/// A model of 1000 rows, whose matmul takes 100 us and whose collective takes 40 us.
CostModel thousand_rows() {
  return testing::model_of(testing::all_reduce_op(1000, 1, 1, DType::F32, 4), testing::affine(CurveAxis::Rows, 0, 0.1),
                           testing::affine(CurveAxis::Bytes, 0, 0.01));
}

PlanOptions steps_of(std::int64_t rows) {
  PlanOptions options;
  options.alignment = options.min_block_rows = rows;
  return options;
}

std::vector<std::int64_t> lengths_of(const LengthComparison& comparison) {
  std::vector<std::int64_t> lengths;
  for (const auto& choice : comparison.choices) lengths.push_back(choice.long_rows);
  return lengths;
}

TEST(CompareLengths, HasEveryMultipleOfTheAlignmentAndUncutLast) {
  const CostModel model = thousand_rows();
  const auto comparison = compare_lengths(model.op, model, steps_of(250)).value();
  const auto& choices = comparison.choices;
  EXPECT_EQ(lengths_of(comparison), (std::vector<std::int64_t>{250, 500, 750, 1000}));
  // The matmul is the bound and nothing has a fixed cost, so n equal blocks take 100 + 40 / n us. {750, 250}: the
  // collective of the 750 rows runs from 75 to 105 us. That of the 250 rows, whose matmul ends at 100, takes another
  // 10.
  EXPECT_DOUBLE_EQ(choices[0].plan.makespan.us, 110);
  EXPECT_DOUBLE_EQ(choices[1].plan.makespan.us, 120);
  EXPECT_DOUBLE_EQ(choices[2].plan.makespan.us, 115);
  EXPECT_EQ(choices[2].plan.cut.block_rows, (std::vector<std::int64_t>{750, 250}));
  EXPECT_DOUBLE_EQ(choices[3].plan.makespan.us, 140);
  EXPECT_FALSE(choices[3].plan.is_cut());
}

TEST(CompareLengths, NamesTheBestPlanByTheLengthOfMostOfItsBlocks) {
  EXPECT_EQ(long_rows_of(Cut{{448, 64, 64, 64}}), 64);
  EXPECT_EQ(long_rows_of(Cut{{250, 750}}), 750);
  EXPECT_EQ(long_rows_of(Cut{{1000}}), 1000);
  EXPECT_EQ(long_rows_of(Cut{}), 0);
}

TEST(CompareLengths, HasTheBestPlanItselfAtItsLength) {
  const CostModel model = thousand_rows();
  for (const std::int64_t step : {64, 100, 250}) {
    const PlanOptions options = steps_of(step);
    const auto comparison = compare_lengths(model.op, model, options).value();
    const LengthChoice& choice = comparison.choices[comparison.best_index];
    EXPECT_EQ(comparison.best(), make_plan(model.op, model, options).value());
    EXPECT_EQ(choice.long_rows, long_rows_of(comparison.best().cut));
  }
}

TEST(CompareLengths, PutsARestThatIsTooShortIntoOneBlock) {
  // Blocks of 300, 300 and 300 leave 100 rows, and a block may not be that short. Another block takes them: 400.
  const CostModel model = thousand_rows();
  const auto choices = compare_lengths(model.op, model, steps_of(300)).value().choices;
  EXPECT_EQ(choices[0].long_rows, 300);
  auto blocks = choices[0].plan.cut.block_rows;
  std::ranges::sort(blocks);
  EXPECT_EQ(blocks, (std::vector<std::int64_t>{300, 300, 400}));
}

TEST(CompareLengths, LeavesOutLengthsThatNeedTooManyBlocks) {
  const CostModel model = thousand_rows();
  PlanOptions options = steps_of(100);
  options.max_block_count = 3;
  // 300 comes from {300, 300, 400}, and so on. Two blocks of 200 are less than half of the rows, which would leave 200
  // out, but the best cut has them.
  const auto comparison = compare_lengths(model.op, model, options).value();
  EXPECT_EQ(comparison.best().cut, (Cut{{600, 200, 200}}));
  EXPECT_EQ(lengths_of(comparison), (std::vector<std::int64_t>{200, 300, 400, 500, 600, 700, 800, 900, 1000}));
}

TEST(CompareLengths, TakesLengthsOfTheSearchWhereThatTakesCoarserSteps) {
  // The search takes 5975 rows in at most 1024 steps, each of 6 rows. At most 128 lengths are compared, which makes
  // their step 48 rows.
  CostModel model = testing::worked_example_model();
  OpSpec op = model.op;
  op.m = 5975;
  const auto comparison = compare_lengths(op, model, steps_of(1)).value();
  const auto lengths = lengths_of(comparison);
  for (std::size_t i = 0; i + 1 < lengths.size(); ++i)
    EXPECT_TRUE(i == comparison.best_index || lengths[i] % 48 == 0) << lengths[i];
}

TEST(CompareLengths, RefusesWhatMakePlanRefuses) {
  const CostModel model = thousand_rows();
  OpSpec other = model.op;
  other.k = 7;
  EXPECT_EQ(compare_lengths(other, model, {}).error().code, ErrorCode::OutOfRange);
  EXPECT_EQ(compare_lengths(model.op, model, steps_of(0)).error().code, ErrorCode::InvalidSpec);
}

RC_GTEST_PROP(CompareLengths, NeverBeatsTheSearchAndStaysWithinItsBounds, ()) {
  CostModel model = testing::worked_example_model();
  OpSpec op = model.op;
  op.m = *rc::gen::inRange<std::int64_t>(65, 100'000); // up to 64 rows are cut by columns
  PlanOptions options = steps_of(*rc::gen::inRange<std::int64_t>(1, 512));
  options.require_significant_gain = false;
  const auto comparison = compare_lengths(op, model, options).value();
  const auto& choices = comparison.choices;
  RC_ASSERT(choices.size() <= static_cast<std::size_t>(kMaxLengthCount) + 2);
  const auto lengths = lengths_of(comparison);
  RC_ASSERT(std::ranges::is_sorted(lengths));
  RC_ASSERT(std::ranges::adjacent_find(lengths) == lengths.end());
  RC_ASSERT(choices.back().long_rows == op.m);
  const Plan best = make_plan(op, model, options).value();
  RC_ASSERT(comparison.best() == best);
  for (const auto& choice : choices) {
    RC_ASSERT(choice.plan.makespan.us >= best.makespan.us * (1 - 1e-9));
    RC_ASSERT(predict_cut(op, model, choice.plan.variant, choice.plan.cut).value().makespan == choice.plan.makespan);
  }
}

} // namespace
} // namespace mc2::planner::block_lengths_test
