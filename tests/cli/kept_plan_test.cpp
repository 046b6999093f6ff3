#include "kept_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/examples.hpp"
#include "store/place.hpp"

namespace mc2::cli::kept_plan_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace examples = store::examples;

TEST(LaterRun, IsToldWhereItContradictsTheRace) {
  const store::place::TemporaryDirectory directory;
  auto layers = store::Layers::open({{}, directory / "store.db"}).value();
  const planner::Plan plan = examples::plan();
  ASSERT_TRUE(plan.validation);
  const auto told = [&](double benefit, int run_count) {
    store::Measurement run = examples::measurement();
    run.benefit = benefit;
    run.benefit_low = benefit - 0.02;
    run.benefit_high = benefit + 0.02;
    run.run_count = run_count;
    EXPECT_TRUE(layers.writable().add_measurement(plan.fingerprint, run, examples::kNow));
    ::testing::internal::CaptureStderr();
    tell_later_run(layers, plan);
    return ::testing::internal::GetCapturedStderr();
  };
  const double raced = plan.validation->benefit;
  const int pairs = plan.validation->pair_count;
  EXPECT_THAT(told(raced + 0.01, pairs), IsEmpty());
  EXPECT_THAT(told(raced / 2, pairs - 1), IsEmpty()) << "of fewer pairs";
  EXPECT_THAT(told(raced / 2, pairs), HasSubstr("its last run here"));
}

} // namespace
} // namespace mc2::cli::kept_plan_test
