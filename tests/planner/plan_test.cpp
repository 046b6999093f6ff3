#include "mc2/planner/plan.hpp"

#include <gtest/gtest.h>

namespace mc2::planner {
namespace {

TEST(Cut, OrderNamesTheOddBlock) {
  EXPECT_EQ((Cut{{1024}}).order(), BlockOrder::Uncut);
  EXPECT_EQ((Cut{{512, 512}}).order(), BlockOrder::Uniform);
  EXPECT_EQ((Cut{{512, 896, 896}}).order(), BlockOrder::ShortFirst);
  EXPECT_EQ((Cut{{896, 896, 512}}).order(), BlockOrder::ShortLast);
  EXPECT_EQ((Cut{{512, 1024}}).order(), BlockOrder::ShortFirst);
  EXPECT_EQ((Cut{{1024, 512}}).order(), BlockOrder::ShortLast);
  EXPECT_EQ((Cut{{1, 2, 3}}).order(), BlockOrder::Free);
}

TEST(Cut, TextIsShort) {
  EXPECT_EQ((Cut{{1024}}).text(), "uncut");
  EXPECT_EQ((Cut{{128, 128, 128}}).text(), "3 x 128");
  EXPECT_EQ((Cut{{512, 896, 896, 896, 896}}).text(), "512 + 4 x 896");
  EXPECT_EQ((Cut{{896, 896, 100}}).text(), "2 x 896 + 100");
  EXPECT_EQ((Cut{{1, 2, 3}}).text(), "1 + 2 + 3");
}

TEST(Plan, BenefitAndOverlapEfficiency) {
  Plan plan;
  plan.serial_us = 100;
  plan.ideal_us = 60;
  plan.makespan.us = 70;
  EXPECT_DOUBLE_EQ(plan.benefit(), 0.3);              // (100 - 70) / 100
  EXPECT_DOUBLE_EQ(plan.overlap_efficiency(), 0.75);  // 30 of 40 possible
}

} // namespace
} // namespace mc2::planner
