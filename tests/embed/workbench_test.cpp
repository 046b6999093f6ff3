#include "mc2/embed/workbench.hpp"

#include <gtest/gtest.h>

#include "mc2/embed/store_keeper.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/tune.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "store/place.hpp"
#include "support/invented_backend.hpp"

namespace mc2::embed::workbench_test {
namespace {

using planner::Variant;
using profiler::RunPart;
using test::invented_op;

const Variant kFew{"ring", {{"ctas", "4"}}};
const Variant kMany{"ring", {{"ctas", "8"}}};

/// The matmul takes 10 us + 1 us a row. The collective takes 20 us + 2 us a row with few CTAs, 20 us + 1 us with many.
const test::InventedBackend kBackend({{kFew, {10, 1, 20, 2}}, {kMany, {10, 1, 20, 1}}});

class WorkbenchOfTwoVariants : public ::testing::Test {
 protected:
  [[nodiscard]] store::Store open_store() const {
    return store::Store::open(directory_ / "store.db", store::OpenMode::ReadWrite).value();
  }

  store::place::TemporaryDirectory directory_;
  std::unique_ptr<Workbench> bench_ = Workbench::open(kBackend, {}, invented_op(), 1).value();
};

planner::CostModel profiled(Workbench& bench, store::Store& store, int max_measurement_count) {
  profiler::ProfileSettings settings;
  settings.plan = planner::PlanOptions{.alignment = 64, .min_block_rows = 64};
  settings.max_measurement_count = max_measurement_count;
  StoreKeeper keeper(access_to(store), bench, {});
  const auto swept = profiler::profile(bench, settings, keeper).value();
  EXPECT_EQ(store.find_profile(bench.op(), bench.fingerprint()).value().samples, swept.samples);
  return profiler::fit_cost_model({bench.op(), bench.fingerprint(), swept.samples}).value().model;
}

void expect_both_variants(const planner::CostModel& model) {
  ASSERT_EQ(model.variants.size(), 2U);
  for (const auto& cost : model.variants) {
    const double row_us = cost.variant == kMany ? 1 : 2;
    EXPECT_TRUE(cost.variant == kFew || cost.variant == kMany) << cost.variant.text();
    EXPECT_NEAR(cost.compute.curve.time_us(512), 10 + 512, 6);
    EXPECT_NEAR(cost.communication.curve.time_us(512 * 64 * 4), 20 + 512 * row_us, 12);
  }
}

TEST_F(WorkbenchOfTwoVariants, AProfileTimesBothAndTheFitKeepsTheirSettings) {
  auto store = open_store();
  expect_both_variants(profiled(*bench_, store, 0));
}

TEST_F(WorkbenchOfTwoVariants, AProfileOfFewMeasurementsTimesBothToo) {
  auto store = open_store();
  expect_both_variants(profiled(*bench_, store, 20));
}

TEST_F(WorkbenchOfTwoVariants, ThoseThatDifferInSettingsOnlyArePreparedApart) {
  const planner::Cut cut{{512, 512}};
  EXPECT_NE(bench_->ready(cut, kFew).value(), bench_->ready(cut, kMany).value());
  EXPECT_EQ(bench_->ready(cut, kFew).value(), bench_->ready(cut, kFew).value());
}

TEST_F(WorkbenchOfTwoVariants, TimesThePartsOfARun) {
  const auto plan = planner::unpredicted_plan(invented_op(), {}, kMany, {{512, 512}}).value();
  const auto number = bench_->prepare(plan).value();
  // The fused run takes 522 us for the first matmul, then 532 us for each collective. Alone, the lanes take 2 * 522 and
  // 2 * 532 us.
  EXPECT_DOUBLE_EQ(bench_->time_us(number, RunPart::Fused), 522 + 532 + 532);
  EXPECT_DOUBLE_EQ(bench_->time_us(number, RunPart::Compute), 2 * 522);
  EXPECT_DOUBLE_EQ(bench_->time_us(number, RunPart::Communication), 2 * 532);
}

TEST_F(WorkbenchOfTwoVariants, ReleasesWhatIsNoLongerMeasured) {
  const planner::Cut cut{{512, 512}};
  ASSERT_TRUE(bench_->ready(cut, kFew) && bench_->ready(cut, kMany));
  bench_->keep_variants({kMany});
  EXPECT_FALSE(bench_->is_ready(cut, kFew));
  EXPECT_TRUE(bench_->is_ready(cut, kMany));
}

TEST(Workbench, BlocksOfEveryLengthCostOneHandOver) {
  // A block takes 1 us + 0.01 us a row, and 4 us pass between two blocks. A run of one block therefore lacks the
  // hand-over, which must be in its cost as well.
  const test::InventedBackend backend({{kFew, {1, 0.01, 1, 0.01, 4}}});
  const auto bench = Workbench::open(backend, {}, invented_op(), 1).value();
  for (const auto target : {profiler::CaseTarget::Matmul, profiler::CaseTarget::Collective})
    for (const std::int64_t rows : {128, 512, 640, 1024}) {
      const auto measure = bench->prepare_case({target, rows}, kFew).value();
      EXPECT_NEAR(planner::to_us(measure().front().time), 1 + 0.01 * static_cast<double>(rows) + 4, 0.001) << rows;
    }
}

TEST_F(WorkbenchOfTwoVariants, KeepsWhatTuningFindsInAStore) {
  auto store = open_store();
  StoreKeeper keeper(access_to(store), *bench_, {});
  const auto plan = planner::unpredicted_plan(invented_op(), bench_->fingerprint(), kMany, {{512, 512}}).value();
  const auto raced = profiler::race(*bench_, {&plan, 1}, {}, "race").value();
  ASSERT_TRUE(keeper.keep_race(raced, {&plan, 1}));
  ASSERT_TRUE(keeper.keep_plan(plan));
  EXPECT_EQ(store.find_plan({invented_op(), store::digest(bench_->fingerprint())}).value().digest,
            keeper.plan_digest());
  const auto measurement = measurement_of(raced.contenders.front(), plan);
  EXPECT_DOUBLE_EQ(measurement.fused_us, 1586);
  EXPECT_DOUBLE_EQ(measurement.serial_us, 1034 + 1044);
  EXPECT_DOUBLE_EQ(measurement.communication_us, 1044);
}

} // namespace
} // namespace mc2::embed::workbench_test
