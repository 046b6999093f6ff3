#include "export_image.hpp"

#include <charconv>

#include "explain_charts.hpp"
#include "plot.hpp"

namespace mc2::cli {
namespace {

constexpr double kWidth = 860, kMargin = 12, kTitleHeight = 44;

/// The charts' class names in fixed colours: a picture has no reader's scheme to follow.
constexpr const char* kStyle = R"css(
text { font: 12px sans-serif; fill: #1d2126; }
.page { fill: #ffffff; } .title { font-size: 15px; font-weight: 600; }
.tick, .axis { fill: #5b636d; } .group, .strong { font-weight: 600; }
.frame { fill: none; stroke: #d9dde2; } .grid { stroke: #e8ebee; }
.compute { fill: #2b6cb0; } .compute.odd { fill: #4687c7; }
.communication { fill: #b4540a; } .communication.odd { fill: #cf7427; }
.onblock { fill: #ffffff; } .exposed { fill: #eceff2; } .onexposed { fill: #5b636d; }
.fit { fill: none; stroke: #1d2126; stroke-width: 1.6; }
.slowed { fill: none; stroke: #cf7427; stroke-width: 1.3; stroke-dasharray: 5 4; }
.band { fill: #2b6cb0; fill-opacity: .2; } .outside { fill: #7f8a96; fill-opacity: .15; }
.alone { fill: #2b6cb0; fill-opacity: .75; } .corun { fill: none; stroke: #cf7427; } .outlier { stroke: #c22f2f; }
.blocksize { stroke: #0b7a58; stroke-dasharray: 2 3; } .blocktext { fill: #0b7a58; }
)css";

/// The height that a chart's own <svg> names.
double height_of(const Markup& chart) {
  constexpr std::string_view kName = " height=\"";
  const std::string& text = chart.str();
  const std::size_t at = text.find(kName);
  double height = 0;
  if (at != std::string::npos) std::from_chars(text.data() + at + kName.size(), text.data() + text.size(), height);
  return height;
}

} // namespace

std::string export_image(const planner::Explanation& explanation, const std::vector<CurveEvidence>& curves) {
  std::vector<Markup> charts{timeline_chart(explanation)};
  for (const auto& curve : curves) charts.push_back(curve_chart(curve));
  double height = kTitleHeight + kMargin;
  for (const auto& chart : charts) height += height_of(chart) + kMargin;
  const planner::Plan& plan = explanation.plan;
  Markup out;
  open_svg_document(out, kWidth, height, plan.op.text() + ": " + plan.cut.text());
  out.style(kStyle);
  rectangle(out, {0, 0, kWidth, height}, "page");
  label(out, kMargin, 26, "start", "title",
        plan.op.text() + ": " + plan.cut.text() + " on " + plan.fingerprint.label());
  double top = kTitleHeight;
  for (const auto& chart : charts) {
    out.open("g", {{"transform", "translate(0," + coordinate(top) + ")"}}).add(chart).close();
    top += height_of(chart) + kMargin;
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + out.close().str();
}

} // namespace mc2::cli
