#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "mc2/render/plot.hpp"
#include "profiling_quality.hpp"

namespace mc2::cli::quality_chart_test {
namespace {

/// A method with one machine per regret. A machine has its regret after every number of measurements.
Method constant(const std::string& name, const std::vector<double>& regrets) {
  Method method{name, {}};
  for (const double regret : regrets) {
    Course course;
    for (const int count : kMeasurementCounts) course[count] = regret;
    method.courses.push_back(course);
  }
  return method;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// The y coordinates of a series' discs, panel after panel.
std::vector<double> heights(const std::string& svg, const std::string& series) {
  std::vector<double> result;
  const std::string start = "<circle class=\"" + series + "\"";
  for (std::size_t at = svg.find(start); at != std::string::npos; at = svg.find(start, at + 1)) {
    const std::size_t y = svg.find("cy=\"", at) + 4;
    result.push_back(std::stod(svg.substr(y, svg.find('"', y) - y)));
  }
  return result;
}

TEST(ProfilingQualityTest, GoalsAreReachedFromTheFirstCountAfterWhichBothHold) {
  // Worst 6 % at 23 measurements misses 5 %; everything from 27 on holds both goals.
  Method method = constant("active", {0.01, 0.01, 0.04});
  method.courses[2][23] = 0.06;
  EXPECT_EQ(method.reached(), 27);
  EXPECT_EQ(constant("good", {0.01}).reached(), kMeasurementCounts.front());
  // The median of 1 %, 3 % and 3 % misses 2 % although no machine misses 5 %.
  EXPECT_EQ(constant("bad median", {0.01, 0.03, 0.03}).reached(), 0);
}

TEST(ProfilingQualityTest, TableShowsMedianP95AndWorst) {
  // Three machines with 1, 2 and 4 %: median 2, p95 at rank 0.95 * 2 = 1.9 -> 2 + 0.9 * 2 = 3.8, worst 4.
  const std::string text = quality_table({constant("grid", {0.04, 0.01, 0.02})});
  EXPECT_EQ(count_of(text, "2.0 % / 3.8 % / 4.0 %"), kMeasurementCounts.size());
  EXPECT_NE(text.find("grid: median <= 2 % and worst <= 5 % from 7 measurements on"), std::string::npos) << text;
}

TEST(QualityChartTest, DrawsOnePointPerMethodCountAndPanel) {
  const std::string svg = quality_chart({constant("active", {0.01}), constant("brute <force>", {0.1, 0.2})});
  EXPECT_EQ(heights(svg, "series0").size(), 2 * kMeasurementCounts.size());
  EXPECT_EQ(heights(svg, "series1").size(), 2 * kMeasurementCounts.size());
  EXPECT_EQ(count_of(svg, "number of measurements</text>"), 2U);
  EXPECT_EQ(count_of(svg, "regret, % of the best time</text>"), 2U);
  EXPECT_NE(svg.find("brute &lt;force&gt;"), std::string::npos); // text cannot become markup
  EXPECT_NE(svg.find("Worst regret, 1 simulated machine<"), std::string::npos) << svg.substr(0, 3000);
  EXPECT_NE(svg.find("goal 2 %"), std::string::npos);
  EXPECT_NE(svg.find("goal 5 %"), std::string::npos);
}

TEST(QualityChartTest, FirstPanelIsTheMedianAndSecondTheWorst) {
  // One machine in three is bad: 40 % is the worst, and 1 % the median like the other method's.
  const std::string svg = quality_chart({constant("a", {0.01, 0.01, 0.4}), constant("b", {0.01, 0.01, 0.01})});
  const auto a = heights(svg, "series0"), b = heights(svg, "series1");
  ASSERT_EQ(a.size(), b.size());
  const std::size_t panel = kMeasurementCounts.size();
  EXPECT_DOUBLE_EQ(a[0], b[0]);
  EXPECT_LT(a[panel], b[panel]); // larger regrets stand higher: smaller y
}

TEST(QualityChartTest, NoRegretIsDrawnAtTheLowerEdge) {
  const std::string svg = quality_chart({constant("zero", {0.0}), constant("one per mille", {0.001})});
  EXPECT_EQ(heights(svg, "series0"), heights(svg, "series1"));
}

} // namespace
} // namespace mc2::cli::quality_chart_test
