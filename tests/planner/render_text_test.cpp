#include "mc2/render/text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace mc2::render_text_test {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::size_t widest_line(const std::string& page) {
  std::size_t widest = 0;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(RenderText, TablesAlignTheirColumns) {
  EXPECT_EQ(render::table({{"cut", "time"}, {"uncut", "1.2 ms"}, {"8 x 64", "803 us"}}, render::kAnyWidth),
            "  cut     time\n"
            "  uncut   1.2 ms\n"
            "  8 x 64  803 us\n");
}

TEST(RenderText, TablesWrapTheirWidestColumnsToTheWidth) {
  const Rows rows{{"operator", "reason"}, {"matmul m=64", "slower than the plan by 3.1 % in 11 pairs"}, {"x", ""}};
  EXPECT_EQ(render::table(rows, 32),
            "  operator     reason\n"
            "  matmul m=64  slower than the\n"
            "               plan by 3.1 % in\n"
            "               11 pairs\n"
            "  x\n");
  for (int width = 24; width < 60; ++width)
    EXPECT_LE(widest_line(render::table(rows, width)), static_cast<std::size_t>(width)) << width;
}

TEST(RenderText, TablesKeepNumbersWithTheirUnits) {
  EXPECT_EQ(render::table({{"cut", "gain"}, {"64 + 8 x 128", "21.4 %"}}, 1),
            "  cut      gain\n"
            "  64 +     21.4 %\n"
            "  8 x 128\n");
}

TEST(RenderText, TablesOfNothingAreEmpty) {
  EXPECT_EQ(render::table({}, 80), "");
  EXPECT_EQ(render::table({{}}, 80), "");
  EXPECT_EQ(render::table({{"", ""}}, 10), "\n");
}

TEST(RenderText, HangingTextLeavesOutWhatIsBeyondItsLines) {
  EXPECT_EQ(render::hanging("why  ", "one two three four", 14, 2), "why  one two\n     three ...\n");
}

} // namespace
} // namespace mc2::render_text_test
