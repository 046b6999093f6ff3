#include "mc2/render/answer.hpp"

#include <gtest/gtest.h>

#include <string>

namespace mc2::render_answer_test {
namespace {

TEST(RenderAnswer, SentencesWrapAndOnlyAbsurdOnesAreCutAtAWord) {
  planner::Plan plan;
  plan.schedule = planner::Schedule::Serial;
  for (int i = 0; i < 60; ++i) plan.makespan.reason += std::string(i == 0 ? "" : " ") + "µµµ";
  // The names leave 49 columns to the text. 7 words of 6 bytes with their blanks take 48; 6 of them and " ..." take 45.
  const std::string page = render::answer(plan, "", 60);
  const std::string line = "           µµµ µµµ µµµ µµµ µµµ µµµ µµµ\n";
  EXPECT_NE(page.find("  basis    µµµ µµµ µµµ µµµ µµµ µµµ µµµ\n" + line + line + line + line + line + line),
            std::string::npos)
      << page;
  EXPECT_TRUE(page.ends_with(line + "           µµµ µµµ µµµ µµµ µµµ µµµ ...\n")) << page;
}

TEST(RenderAnswer, ABenefitThatTheTimesContradictIsExplained) {
  const auto said = [](double fused_us, double serial_us, double benefit) {
    return render::ratio_note({.fused_us = fused_us, .serial_us = serial_us, .benefit = benefit}) != "";
  };
  EXPECT_TRUE(said(18'440, 19'150, -0.016)); // by the medians it is 3.7 % less
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

TEST(RenderAnswer, AnUndecidedRaceIsToldAsOne) {
  planner::Plan plan;
  plan.schedule = planner::Schedule::Serial;
  plan.validation = planner::Validation{.fused_us = 100, .serial_us = 100, .pair_count = 6};
  plan.reason = "do not cut: the best cut, 2 x 512, measured -0.5 %, not faster than serial beyond the noise";
  const std::string decided = render::answer(plan, "", 100);
  EXPECT_NE(decided.find("none: the best cut, 2 x 512"), std::string::npos) << decided;
  EXPECT_NE(decided.find("measured: raced on this machine, 6 pairs\n"), std::string::npos) << decided;
  plan.reason = std::string(planner::kUndecided) + "the best cut, 2 x 512, measured +30.0 %, too noisy to tell";
  const std::string undecided = render::answer(plan, "", 100);
  EXPECT_NE(undecided.find("benefit  undecided: the best cut, 2 x 512"), std::string::npos) << undecided;
  EXPECT_NE(undecided.find("basis    undecided: raced on this machine, 6 pairs; mc2 tune --fresh"), std::string::npos)
      << undecided;
  EXPECT_EQ(undecided.find("measured: "), std::string::npos) << undecided;
}

} // namespace
} // namespace mc2::render_answer_test
