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

} // namespace
} // namespace mc2::render_answer_test
