#include "collective_times.hpp"

#include <algorithm>
#include <array>

#include "mc2/planner/text.hpp"
#include "mc2/render/plot.hpp"

namespace mc2::cli {
namespace {

using render::Box;
using render::Point;
using render::Scale;

constexpr double kWidth = 960, kHeight = 520;
constexpr Box kBox{84, 64, 700, 460};
constexpr double kLegendStep = 24;

/// Colours that colour-blind readers can tell apart (Okabe and Ito), and dashes that differ in grey.
constexpr const char* kStyle = R"css(
text { font: 13px 'DejaVu Sans', Verdana, sans-serif; fill: #1d2126; }
.tick, .axis { fill: #4a525c; } .heading { font-size: 14px; font-weight: bold; }
.page { fill: #ffffff; } .frame { fill: none; stroke: #b4bbc3; } .grid { stroke: #e4e7ea; }
path { fill: none; stroke-linejoin: round; } [class^="series"], .copy { stroke-width: 2; }
.series0 { stroke: #0072b2; } .series1 { stroke: #d55e00; stroke-dasharray: 8 3; }
.series2 { stroke: #b38600; stroke-dasharray: 3 3; }
.series3 { stroke: #009e73; stroke-dasharray: 9 3 2 3; } .series4 { stroke: #cc79a7; stroke-dasharray: 14 4; }
.series5 { stroke: #1d2126; stroke-dasharray: 6 2 1 2 1 2; } .series6 { stroke: #56b4e9; stroke-dasharray: 10 2; }
.series7 { stroke: #7f3c8d; stroke-dasharray: 2 2; } .copy { stroke: #6b747e; stroke-dasharray: 2 4; }
)css";
constexpr std::array kSeries{"series0", "series1", "series2", "series3", "series4", "series5", "series6", "series7"};

/// GB/s; 0 where there is no time.
double gb_per_s(double bytes, double us) { return us > 0 ? bytes / us / 1e3 : 0; }

struct Line {
  std::string name;
  const char* style;
  std::vector<Point> points;
};

std::vector<Line> lines_of(std::span<const CollectiveTimes> sizes, std::span<const std::string> variants,
                           double bus_factor) {
  std::vector<Line> lines;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    lines.push_back({variants[i], kSeries[i % kSeries.size()], {}});
    for (const CollectiveTimes& size : sizes) {
      const auto bytes = static_cast<double>(size.message_bytes);
      lines.back().points.push_back({bytes, gb_per_s(bytes * bus_factor, size.throughput_us[i])});
    }
  }
  if (sizes.front().copy_us == 0) return lines;
  lines.push_back({"copy (speed of light)", "copy", {}});
  for (const CollectiveTimes& size : sizes) {
    const auto bytes = static_cast<double>(size.message_bytes);
    lines.back().points.push_back({bytes, gb_per_s(bytes * bus_factor, size.copy_us)});
  }
  return lines;
}

} // namespace

std::string_view to_string(TimingMode mode) noexcept {
  switch (mode) {
    case TimingMode::LaneTime: return "lane time";
    case TimingMode::Throughput: return "throughput";
    case TimingMode::Latency: return "latency";
  }
  return "?";
}

std::span<const double> CollectiveTimes::of(TimingMode mode) const noexcept {
  if (mode == TimingMode::LaneTime) return lane_us;
  return mode == TimingMode::Throughput ? throughput_us : latency_us;
}

std::size_t CollectiveTimes::fastest(TimingMode mode) const noexcept {
  const auto times = of(mode);
  return static_cast<std::size_t>(std::ranges::min_element(times) - times.begin());
}

std::string switch_overs(std::span<const CollectiveTimes> sizes, std::span<const std::string> variants,
                         TimingMode mode) {
  std::string text;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t winner = sizes[i].fastest(mode);
    if (i + 1 < sizes.size() && sizes[i + 1].fastest(mode) == winner) continue;
    text += (text.empty() ? "" : ", ") + variants[winner];
    if (i + 1 < sizes.size()) text += " up to " + bytes_text(sizes[i].message_bytes);
  }
  return text;
}

std::string collectives_chart(std::span<const CollectiveTimes> sizes, std::span<const std::string> variants,
                              double bus_factor, const std::string& title) {
  const auto lines = lines_of(sizes, variants, bus_factor);
  double least = lines.front().points.front().y, most = least;
  for (const Line& line : lines) {
    for (const Point& point : line.points) least = std::min(least, point.y), most = std::max(most, point.y);
  }
  render::Markup out;
  open_svg_document(out, kWidth, kHeight, title);
  out.style(kStyle);
  rectangle(out, {0, 0, kWidth, kHeight}, "page");
  label(out, kBox.left, kBox.top - 24, "start", "heading", title);
  render::Plot plot(out, kBox,
                    Scale::logarithmic(static_cast<double>(sizes.front().message_bytes) / 1.2,
                                       static_cast<double>(sizes.back().message_bytes) * 1.2, kBox.left, kBox.right),
                    Scale::logarithmic(least / 1.3, most * 1.3, kBox.bottom, kBox.top));
  plot.axes({"message, KiB", {1024, "KiB"}, 8}, {"bus bandwidth, GB/s", {1, "GB/s"}, 8});
  double y = kBox.top + 10;
  for (const Line& line : lines) {
    plot.line(line.points, line.style);
    segment(out, {kBox.right + 16, y}, {kBox.right + 52, y}, line.style);
    label(out, kBox.right + 60, y + 4, "start", "", line.name);
    y += kLegendStep;
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + out.close().str();
}

} // namespace mc2::cli
