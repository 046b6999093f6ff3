#include "pages/explain_curves.hpp"

#include <algorithm>
#include <cmath>

#include "mc2/render/plot.hpp"
#include "pages/render.hpp"

namespace mc2::cli {
namespace {

using render::Box;
using render::Markup;
using render::Plot;
using render::Point;
using render::Scale;
using render::time_unit;
using render::Unit;

constexpr double kPictureWidth = 860;
constexpr Box kCurveBox{84, 36, 840, 316}, kResidualBox{84, 352, 840, 466};
constexpr double kHeight = 508;
constexpr int kLinePoints = 240;
constexpr std::size_t kMaxDrawnSamples = 3000, kMaxMarkedBlocks = 40, kMaxLabelledBlocks = 6;

/// The range of a curve's plot.
struct Range {
  double low_x = 0, high_x = 1, high_us = 1;
};

Range range_of(const CurveEvidence& e) {
  std::vector<double> sizes = e.block_x;
  for (const auto& sample : e.samples) sizes.push_back(sample.x);
  // An analytic curve may be valid for any size; then the plan's blocks decide the range.
  const bool is_bounded = e.cost.curve.valid_max_x < 1e11;
  if (is_bounded || sizes.empty()) sizes.insert(sizes.end(), {e.cost.curve.valid_min_x, e.cost.curve.valid_max_x});
  std::erase_if(sizes, [](double x) { return !(x > 0); });
  if (sizes.empty()) sizes.push_back(1);
  const auto [low, high] = std::minmax_element(sizes.begin(), sizes.end());
  Range range{*low / 1.25, *high * 1.1, 0};
  range.high_us = e.cost.curve.time_us(range.high_x) * std::max(1 + e.cost.curve.relative_interval, e.cost.slowdown);
  for (const auto& sample : e.samples)
    if (!sample.is_outlier) range.high_us = std::max(range.high_us, sample.time_us * 1.05);
  return range;
}

/// Whether the sizes span decades, so that both axes are logarithmic.
bool spans_decades(const Range& range) { return range.high_x / range.low_x > 15; }

Scale x_scale(const Range& range, const Box& box) {
  return spans_decades(range) ? Scale::logarithmic(range.low_x, range.high_x, box.left, box.right)
                              : Scale::linear(0, range.high_x, box.left, box.right);
}

Scale y_scale(const CurveEvidence& e, const Range& range) {
  if (!spans_decades(range)) return Scale::linear(0, range.high_us, kCurveBox.bottom, kCurveBox.top);
  double low_us = e.cost.curve.time_us(range.low_x) * std::max(0.5, 1 - e.cost.curve.relative_interval);
  for (const auto& sample : e.samples)
    if (!sample.is_outlier && sample.time_us > 0) low_us = std::min(low_us, sample.time_us);
  return Scale::logarithmic(low_us / 1.15, range.high_us * 1.1, kCurveBox.bottom, kCurveBox.top);
}

Unit x_unit(const planner::CostCurve& curve, const Range& range) {
  return curve.axis == planner::CurveAxis::Bytes ? render::byte_unit(range.high_x)
                                                 : Unit{1, std::string(to_string(curve.axis))};
}

/// The sizes at which curves are evaluated: evenly along the axis.
std::vector<double> line_sizes(const Scale& x) {
  std::vector<double> sizes;
  for (int i = 0; i <= kLinePoints; ++i) sizes.push_back(x.value_at(static_cast<double>(i) / kLinePoints));
  std::erase_if(sizes, [](double size) { return !(size > 0); });
  return sizes;
}

std::vector<Point> curve_points(const planner::CostCurve& curve, const std::vector<double>& sizes, double factor) {
  std::vector<Point> points;
  for (const double size : sizes) points.push_back({size, factor * curve.time_us(size)});
  return points;
}

/// Draws samples.
/// @param value  of a sample in the plot: its time, or its residual
template <typename Value>
void draw_samples(Plot& plot, const std::vector<CurveSample>& samples, Value value) {
  std::vector<Point> alone, co_run, outliers;
  for (const auto& sample : samples) {
    const Point point{sample.x, value(sample)};
    (sample.is_outlier ? outliers : sample.is_co_run ? co_run : alone).push_back(point);
  }
  plot.dots(co_run, 2.6, "corun");
  plot.dots(alone, 2.6, "alone");
  plot.crosses(outliers, 3, "outlier");
}

void shade_outside(Plot& plot, const planner::CostCurve& curve, const Range& range) {
  plot.shade(spans_decades(range) ? range.low_x : 0, curve.valid_min_x, "outside");
  plot.shade(curve.valid_max_x, range.high_x, "outside");
}

void mark_blocks(Markup& out, Plot& plot, const CurveEvidence& e, bool with_labels, const Unit& unit) {
  const std::size_t count = std::min(e.block_x.size(), kMaxMarkedBlocks);
  double last_end[2] = {0, 0};
  for (std::size_t i = 0; i < count; ++i) {
    plot.vertical(e.block_x[i], "blocksize");
    if (!with_labels || e.block_x.size() > kMaxLabelledBlocks) continue;
    const std::string text = render::short_number(e.block_x[i] / unit.size) + " " + unit.name;
    const double half = 3.4 * static_cast<double>(text.size());
    const double at = std::clamp(plot.x().at(e.block_x[i]), plot.box().left + half, plot.box().right - half);
    const int row = at - half > last_end[0] ? 0 : 1;
    if (at - half <= last_end[row]) continue;
    last_end[row] = at + half + 4;
    label(out, at, plot.box().top - 7 - 13 * row, "middle", "blocktext", text);
  }
}

void draw_curve(Markup& out, const CurveEvidence& e, const Range& range, const std::vector<CurveSample>& samples) {
  const planner::CostCurve& curve = e.cost.curve;
  const Unit unit = x_unit(curve, range), time = time_unit(range.high_us);
  Plot plot(out, kCurveBox, x_scale(range, kCurveBox), y_scale(e, range));
  // If there are residuals below, their plot has the labels of the common axis.
  plot.axes({"size of a block, " + unit.name, unit, 8}, {"time of a block, " + time.name, time, 6}, samples.empty());
  shade_outside(plot, curve, range);
  const auto sizes = line_sizes(plot.x());
  plot.band(curve_points(curve, sizes, std::max(0.0, 1 - curve.relative_interval)),
            curve_points(curve, sizes, 1 + curve.relative_interval), "band");
  if (e.cost.slowdown != 1)
    plot.line(curve_points(curve, sizes, e.cost.slowdown), e.cost.slowdown > 1 ? "slowed" : "in a cut");
  plot.line(curve_points(curve, sizes, 1), "fit");
  draw_samples(plot, samples, [](const CurveSample& s) { return s.time_us; });
  mark_blocks(out, plot, e, true, unit);
}

double residual_percent(const CurveEvidence& e, const CurveSample& sample) {
  return 100 * profiler::relative_residual(e.cost.curve, e.cost.slowdown, sample);
}

/// The largest residual of the plot: the interval and most samples fit, and outliers are drawn at the edge.
double residual_limit(const CurveEvidence& e, const std::vector<CurveSample>& samples) {
  std::vector<double> sizes{100 * e.cost.curve.relative_interval * 1.3, 1};
  std::vector<double> residuals;
  for (const auto& sample : samples)
    if (!sample.is_outlier) residuals.push_back(std::abs(residual_percent(e, sample)));
  if (!residuals.empty()) {
    const auto at = residuals.begin() + static_cast<std::ptrdiff_t>(residuals.size() * 49 / 50);
    std::nth_element(residuals.begin(), at, residuals.end());
    sizes.push_back(*at * 1.1);
  }
  return std::min(*std::max_element(sizes.begin(), sizes.end()), 1000.0);
}

void draw_residuals(Markup& out, const CurveEvidence& e, const Range& range, const std::vector<CurveSample>& samples) {
  const planner::CostCurve& curve = e.cost.curve;
  const Unit unit = x_unit(curve, range);
  const double limit = residual_limit(e, samples), half_width = 100 * curve.relative_interval;
  Plot plot(out, kResidualBox, x_scale(range, kResidualBox),
            Scale::linear(-limit, limit, kResidualBox.bottom, kResidualBox.top));
  plot.axes({"size of a block, " + unit.name, unit, 8}, {"residual, %", {1, "%"}, 5});
  shade_outside(plot, curve, range);
  const double low = plot.x().low(), high = plot.x().high();
  plot.band({{low, -half_width}, {high, -half_width}}, {{low, half_width}, {high, half_width}}, "band");
  plot.horizontal(0, "fit");
  draw_samples(plot, samples, [&](const CurveSample& s) { return residual_percent(e, s); });
  mark_blocks(out, plot, e, false, unit);
}

} // namespace

render::Markup curve_chart(const CurveEvidence& evidence) {
  const Range range = range_of(evidence);
  const auto samples = profiler::thinned(evidence.samples, kMaxDrawnSamples);
  Markup out;
  open_svg(out, kPictureWidth, samples.empty() ? kResidualBox.top + 6 : kHeight,
           "Fitted cost of a block on the " + std::string(to_string(evidence.lane)) + " lane");
  draw_curve(out, evidence, range, samples);
  if (!samples.empty()) draw_residuals(out, evidence, range, samples);
  return out.close();
}

} // namespace mc2::cli
