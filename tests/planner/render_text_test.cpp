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

TEST(RenderText, VariantsAreCalledByWhatTellsThemApart) {
  const auto called = [](const std::vector<std::string>& texts) {
    std::vector<planner::Variant> variants;
    for (const std::string& text : texts) variants.push_back(planner::parse_variant(text));
    return render::variant_names(variants);
  };
  const auto clusters = called({"ring(algorithm=ring,topology=dgx_h100)", "tree(algorithm=tree,topology=dgx_h100)"});
  EXPECT_EQ(clusters.names, (std::vector<std::string>{"ring", "tree"}));
  EXPECT_EQ(clusters.common, "topology=dgx_h100");
  const auto slices = called({"copy(slices=3,sms=132,tile=128x128)", "copy(slices=4,sms=132,tile=128x128)"});
  EXPECT_EQ(slices.names, (std::vector<std::string>{"copy(slices=3)", "copy(slices=4)"}));
  EXPECT_EQ(slices.common, "sms=132, tile=128x128");
  // A setting that only one of the variants has is not common to them.
  const auto others = called({"nccl(ctas=8)", "direct"});
  EXPECT_EQ(others.names, (std::vector<std::string>{"nccl(ctas=8)", "direct"}));
  EXPECT_EQ(others.common, "");
  EXPECT_TRUE(called({}).names.empty());
}

TEST(RenderText, HangingTextLeavesOutWhatIsBeyondItsLines) {
  EXPECT_EQ(render::hanging("why  ", "one two three four", 14, 2), "why  one two\n     three ...\n");
}

} // namespace
} // namespace mc2::render_text_test
