#include "mc2/render/answer.hpp"

#include <gtest/gtest.h>

#include <string>

namespace mc2::render_answer_test {
namespace {

TEST(RenderAnswer, FieldsOfTwoLinesEndAtAWord) {
  planner::Plan plan;
  plan.schedule = planner::Schedule::Serial;
  for (int i = 0; i < 30; ++i) plan.makespan.reason += std::string(i == 0 ? "" : " ") + "µµµ";
  // 49 bytes beside the names: 7 words of 6 bytes with their blanks are 48, and 6 of them with " ..." 45.
  const std::string page = render::answer(plan, "", 60);
  EXPECT_TRUE(
      page.ends_with("  sure     µµµ µµµ µµµ µµµ µµµ µµµ µµµ\n"
                     "           µµµ µµµ µµµ µµµ µµµ µµµ ...\n"))
      << page;
}

TEST(RenderAnswer, ABenefitThatTheTimesContradictIsExplained) {
  const auto said = [](double fused_us, double serial_us, double benefit) {
    return render::ratio_note({.fused_us = fused_us, .serial_us = serial_us, .benefit = benefit}) != "";
  };
  EXPECT_TRUE(said(18'440, 19'150, -0.016)); // 3.7 % less by the medians
  EXPECT_TRUE(said(800, 1000, 0.215));
  EXPECT_FALSE(said(800, 1000, 0.205));
  EXPECT_FALSE(said(1000.2, 1000, 0.0004)); // both show as 0.0 %
  planner::Plan plan;
  plan.cut.block_rows = {64, 64};
  plan.op.m = 128;
  plan.validation = {.fused_us = 18'440, .serial_us = 19'150, .benefit = -0.016};
  EXPECT_NE(render::answer(plan, "", 120).find("19.15 ms; the benefit is the median of the pairs' ratios"),
            std::string::npos);
}

} // namespace
} // namespace mc2::render_answer_test
