#include "mc2/render/timeline_chart.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include "mc2/planner/text.hpp"
#include "mc2/render/plot.hpp"
#include "mc2/render/text.hpp"

namespace mc2::render {
namespace {

using planner::Explanation;
using planner::Lane;
using planner::Span;
using planner::Timeline;

constexpr double kWidth = 860, kLeft = 190;

/// The lengths of a lane's blocks, for their labels.
struct Blocks {
  std::vector<std::int64_t> lengths;
  std::string unit; ///< "rows" or "columns"
};

/// Draws the blocks of one lane. Neighbouring blocks that are too narrow to tell apart become one bar, so the drawing
/// stays small however many blocks there are.
class LaneDrawing {
 public:
  LaneDrawing(Markup& out, const Scale& x, double top, Lane lane, const Blocks& blocks)
      : out_(out), x_(x), top_(top), lane_(lane), blocks_(blocks) {}

  void draw(const std::vector<Span>& blocks) {
    constexpr double kMergedWidth = 2;
    for (std::size_t i = 0; i < blocks.size();) {
      std::size_t last = i;
      while (last + 1 < blocks.size() && x_.at(blocks[last + 1].end_us) - x_.at(blocks[i].start_us) < kMergedWidth)
        ++last;
      draw_bar(blocks[i].start_us, blocks[last].end_us, i, last);
      i = last + 1;
    }
  }

 private:
  void draw_bar(double start_us, double end_us, std::size_t first, std::size_t last) {
    const double left = x_.at(start_us), right = std::max(x_.at(end_us), left + 0.5);
    const std::string number = std::to_string(first + 1);
    const std::string name =
        first == last ? "block " + number + ", " + std::to_string(blocks_.lengths[first]) + " " + blocks_.unit
                      : "blocks " + number + " to " + std::to_string(last + 1);
    rectangle(out_, {left, top_, right, top_ + kBlockHeight}, lane_style(lane_, first),
              std::string(to_string(lane_)) + " " + name + ": " + time_interval_text(start_us, end_us));
    if (first != last || right - left < 9.0 * static_cast<double>(number.size()) + 5) return;
    const std::string wide = number + ": " + std::to_string(blocks_.lengths[first]);
    const bool is_wide = right - left > 7.5 * static_cast<double>(wide.size()) + 8;
    label(out_, (left + right) / 2, top_ + kBlockHeight / 2 + 4, "middle", "onblock", is_wide ? wide : number);
  }

 public:
  static constexpr double kBlockHeight = 30;

 private:
  Markup& out_;
  const Scale& x_;
  double top_;
  Lane lane_;
  const Blocks& blocks_;
};

void exposed(Markup& out, const Scale& x, double top, double from_us, double to_us, const char* name) {
  const double left = x.at(from_us), right = x.at(to_us);
  if (right - left < 2) return;
  rectangle(out, {left, top, right, top + LaneDrawing::kBlockHeight}, "exposed",
            std::string(name) + ": " + time_text(to_us - from_us) + " exposed");
  const std::string text = std::string(name) + " " + time_text(to_us - from_us);
  if (right - left > 6.6 * static_cast<double>(text.size()) + 6)
    label(out, (left + right) / 2, top + LaneDrawing::kBlockHeight / 2 + 4, "middle", "onexposed", text);
}

constexpr double kGroupHeight = 100;

void timeline_group(Markup& out, const Scale& x, double top, const std::string& title, const Explanation& explanation,
                    const Timeline& timeline) {
  const Lane first = planner::traits_of(explanation.plan.op.kind).first_lane;
  const Lane second = other(first);
  Blocks blocks{explanation.plan.cut.block_rows, std::string(to_string(planner::cut_axis(explanation.plan.op)))};
  auto& lengths = blocks.lengths;
  if (timeline.first.size() > lengths.size()) // the local part comes first
    lengths.insert(lengths.begin(), planner::traits_of(explanation.plan.op.kind).cut_axis_length(explanation.plan.op));
  const planner::TimelineUse use = planner::timeline_use(timeline);
  label(out, kLeft - 60, top + 14, "start", "group", title);
  const double first_top = top + 22, second_top = first_top + LaneDrawing::kBlockHeight + 5;
  label(out, kLeft - 70, first_top + 19, "end", "row", to_string(first));
  label(out, kLeft - 70, second_top + 19, "end", "row", to_string(second));
  exposed(out, x, second_top, 0, use.second.before_us, "head");
  exposed(out, x, first_top, timeline.makespan_us - use.first.after_us, timeline.makespan_us, "tail");
  LaneDrawing(out, x, first_top, first, blocks).draw(timeline.first);
  LaneDrawing(out, x, second_top, second, blocks).draw(timeline.second);
}

constexpr double kMargin = 12, kTitleHeight = 62;
constexpr std::size_t kMaxTitle = 97, kMaxSubtitle = 117; ///< bytes that fit the width; the rest becomes "..."

/// Fixed colours for the class names of the charts: a picture cannot follow its reader's light or dark scheme.
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

/// The height attribute of a chart's own <svg> element.
double height_of(const Markup& chart) {
  constexpr std::string_view kName = " height=\"";
  const std::string& text = chart.str();
  const std::size_t at = text.find(kName);
  double height = 0;
  if (at != std::string::npos) std::from_chars(text.data() + at + kName.size(), text.data() + text.size(), height);
  return height;
}

} // namespace

const char* lane_style(Lane lane, std::size_t block) {
  if (lane == Lane::Compute) return block % 2 == 0 ? "compute" : "compute odd";
  return block % 2 == 0 ? "communication" : "communication odd";
}

Markup timeline_chart(const Explanation& explanation) {
  const Timeline& predicted = explanation.plan.timeline;
  const double longest_us =
      std::max({predicted.makespan_us, explanation.measured ? explanation.measured->timeline.makespan_us : 0, 1e-6});
  const int group_count = (explanation.plan.has_timeline() ? 1 : 0) + (explanation.measured ? 1 : 0);
  const double height = group_count * kGroupHeight + 50;
  Markup out;
  open_svg(out, kWidth, height, "When each block is on each lane");
  const Scale x = Scale::linear(0, longest_us, kLeft - 60, kWidth - 30);
  time_axis(out, x, 18, height - 46, time_unit(longest_us), "time");
  double top = 4;
  if (explanation.plan.has_timeline()) {
    timeline_group(out, x, top, "predicted, " + time_text(predicted.makespan_us), explanation, predicted);
    top += kGroupHeight;
  }
  if (explanation.measured)
    timeline_group(out, x, top, "measured, slowest rank, " + time_text(explanation.measured->timeline.makespan_us),
                   explanation, explanation.measured->timeline);
  return out.close();
}

std::string plan_drawing(const Explanation& explanation, std::span<const Markup> charts) {
  std::vector<Markup> all{timeline_chart(explanation)};
  all.insert(all.end(), charts.begin(), charts.end());
  double height = kTitleHeight + kMargin;
  for (const auto& chart : all) height += height_of(chart) + kMargin;
  const planner::Plan& plan = explanation.plan;
  Markup out;
  const std::string title = clipped(plan.op.text() + ": " + plan.cut.text(), kMaxTitle);
  open_svg_document(out, kWidth, height, title);
  out.style(kStyle);
  rectangle(out, {0, 0, kWidth, height}, "page");
  label(out, kMargin, 26, "start", "title", title);
  label(out, kMargin, 46, "start", "axis", clipped(plan.fingerprint.label(), kMaxSubtitle));
  double top = kTitleHeight;
  for (const auto& chart : all) {
    out.open("g", {{"transform", "translate(0," + coordinate(top) + ")"}}).add(chart).close();
    top += height_of(chart) + kMargin;
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + out.close().str();
}

} // namespace mc2::render
