#include <algorithm>
#include <array>

#include "mc2/planner/error.hpp"
#include "mc2/render/plot.hpp"
#include "profiling_quality.hpp"

namespace mc2::cli {
namespace {

using render::Box;
using render::coordinate;
using render::Markup;
using render::Plot;
using render::Point;
using render::Scale;
using render::short_number;

constexpr double kWidth = 880, kHeight = 684, kPanelHeight = 236, kDotRadius = 2.6;
constexpr Box kFirstBox{84, 76, 800, 76 + kPanelHeight};
constexpr double kPanelStep = kPanelHeight + 72;
/// Smaller regrets are drawn as this one: a logarithmic axis needs a lower end, and noise is above it.
constexpr double kLeastPercent = 0.1;

/// Colours that colour-blind readers can tell apart (Okabe and Ito), and dashes that differ in grey.
constexpr const char* kStyle = R"css(
text { font: 13px 'DejaVu Sans', Verdana, sans-serif; fill: #1d2126; }
.tick, .axis { fill: #4a525c; } .heading { font-size: 14px; font-weight: bold; }
.goaltext { fill: #6b747e; font-size: 12px; }
.page { fill: #ffffff; } .frame { fill: none; stroke: #b4bbc3; } .grid { stroke: #e4e7ea; }
.goal { stroke: #6b747e; stroke-dasharray: 2 4; }
path { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
path.series0 { stroke: #0072b2; stroke-width: 3; } circle.series0 { fill: #0072b2; }
path.series1 { stroke: #d55e00; stroke-dasharray: 8 3; } circle.series1 { fill: #d55e00; }
path.series2 { stroke: #b38600; stroke-dasharray: 3 3; } circle.series2 { fill: #b38600; }
path.series3 { stroke: #009e73; stroke-dasharray: 9 3 2 3; } circle.series3 { fill: #009e73; }
path.series4 { stroke: #1d2126; stroke-dasharray: 14 4; } circle.series4 { fill: #1d2126; }
)css";
constexpr std::array kSeries{"series0", "series1", "series2", "series3", "series4"};

struct Panel {
  std::string heading;
  double quantile;
  double goal;
};

std::vector<Point> points_of(const Method& method, double quantile) {
  std::vector<Point> points;
  for (const int count : kMeasurementCounts)
    points.push_back({static_cast<double>(count), std::max(100 * method.quantile_at(count, quantile), kLeastPercent)});
  return points;
}

void draw_panel(Markup& out, const Box& box, const std::vector<Method>& methods, const Panel& panel) {
  double most = 100 * panel.goal, least = most;
  std::vector<std::vector<Point>> lines;
  for (const Method& method : methods) {
    lines.push_back(points_of(method, panel.quantile));
    for (const Point& point : lines.back()) most = std::max(most, point.y), least = std::min(least, point.y);
  }
  Plot plot(
      out, box,
      Scale::logarithmic(kMeasurementCounts.front() * 0.95, kMeasurementCounts.back() * 1.05, box.left, box.right),
      Scale::logarithmic(std::max(kLeastPercent, least / 1.3), most * 1.3, box.bottom, box.top));
  plot.axes({"number of measurements", {1, ""}, 6}, {"regret, % of the best time", {1, "%"}, 9});
  label(out, box.left, box.top - 9, "start", "heading", panel.heading);
  plot.horizontal(100 * panel.goal, "goal");
  label(out, box.right + 6, plot.y().at(100 * panel.goal) + 4, "start", "goaltext",
        "goal " + short_number(100 * panel.goal) + " %");
  // Drawn last, so that the first and most important method lies on top.
  for (std::size_t i = lines.size(); i-- > 0;) {
    plot.line(lines[i], kSeries[i]);
    plot.dots(lines[i], kDotRadius, kSeries[i]);
  }
}

void draw_legend(Markup& out, const std::vector<Method>& methods) {
  constexpr double kY = 26, kLineLength = 44, kGap = 36, kLetterWidth = 7.6;
  double x = kFirstBox.left;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    out.leaf("path", {{"class", kSeries[i]},
                      {"d", "M" + coordinate(x) + " " + coordinate(kY) + "L" + coordinate(x + kLineLength) + " " +
                                coordinate(kY)}});
    label(out, x + kLineLength + 7, kY + 4, "start", "name", methods[i].name);
    x += kLineLength + kGap + kLetterWidth * static_cast<double>(methods[i].name.size());
  }
}

} // namespace

std::string quality_chart(const std::vector<Method>& methods) {
  MC2_CHECK(!methods.empty() && methods.size() <= kSeries.size(), "the chart has a style for one to five methods");
  const std::size_t count = methods.front().courses.size();
  const std::string machines = std::to_string(count) + (count == 1 ? " simulated machine" : " simulated machines");
  Markup out;
  open_svg_document(out, kWidth, kHeight, "Plan quality against number of measurements");
  out.style(kStyle);
  rectangle(out, {0, 0, kWidth, kHeight}, "page");
  draw_legend(out, methods);
  Box box = kFirstBox;
  for (const Panel& panel :
       {Panel{"Median regret, " + machines, 0.5, kMedianGoal}, Panel{"Worst regret, " + machines, 1, kWorstGoal}}) {
    draw_panel(out, box, methods, panel);
    box.top += kPanelStep;
    box.bottom += kPanelStep;
  }
  label(out, kFirstBox.left, kHeight - 12, "start", "goaltext", "Regrets below 0.1 % are drawn at 0.1 %.");
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + out.close().str();
}

} // namespace mc2::cli
