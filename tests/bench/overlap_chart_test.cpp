#include "overlap_chart.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace mc2::cli::overlap_chart_test {
namespace {

using planner::OpKind;
using testing::HasSubstr;
using testing::Not;

/// A row of an operator whose serial takes 200 us.
OverlapRow row(OpKind kind, double mc2_us, double ideal_us, std::optional<double> peer_us = std::nullopt) {
  OverlapRow row{{kind, 1024, 512, 256, planner::DType::Bf16, 2}, 200, ideal_us, 200 / mc2_us, std::nullopt};
  if (peer_us) row.peer_over_mc2 = *peer_us / mc2_us;
  return row;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(OverlapChart, HasARowPerOperatorUnderItsKind) {
  const std::vector<OverlapRow> rows{row(OpKind::AllGatherMatmul, 150, 140, 160),
                                     row(OpKind::MatmulAllReduce, 160, 120),
                                     row(OpKind::AllGatherMatmul, 100, 90, 210)};
  const std::string svg = overlap_chart("times <here>", "others", rows);
  EXPECT_EQ(count(svg, "1024 x 512 x 256 bf16 x2"), 3U);
  EXPECT_EQ(count(svg, ">all_gather_matmul<"), 1U);
  EXPECT_LT(svg.rfind("2.00x"), svg.find(">matmul_all_reduce<")) << "kinds stay together";
  EXPECT_EQ(count(svg, "class=\"mc2\""), 3U + 1U) << "and in the legend";
  EXPECT_EQ(count(svg, "class=\"peer\""), 2U * (2U + 1U));
  EXPECT_THAT(svg, HasSubstr("times &lt;here&gt;"));
  EXPECT_THAT(svg, HasSubstr("2.10x")) << "210 / 100";
}

TEST(OverlapChart, LeavesOutAPeerThatNobodyRan) {
  const std::vector<OverlapRow> rows{row(OpKind::MatmulAllReduce, 160, 120)};
  EXPECT_THAT(overlap_chart("t", "others", rows), Not(HasSubstr("others")));
}

TEST(OverlapChart, DrawsWhatIsFarOffAtTheEdge) {
  const auto dots = [](double mc2_us) {
    const std::string svg =
        overlap_chart("t", "others", std::vector<OverlapRow>{row(OpKind::MatmulAllReduce, mc2_us, 120)});
    const std::size_t at = svg.rfind("cx=\"") + 4;
    return std::stod(svg.substr(at, svg.find('"', at) - at));
  };
  EXPECT_LT(dots(150), dots(200));
  EXPECT_EQ(dots(1e6), dots(1e9));
}

} // namespace
} // namespace mc2::cli::overlap_chart_test
