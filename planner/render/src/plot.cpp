#include "mc2/render/plot.hpp"

#include <algorithm>
#include <cmath>

#include "mc2/planner/text.hpp"

namespace mc2::render {
namespace {

constexpr double kTickLength = 4, kTickTextHeight = 16, kAxisTextHeight = 33;

/// The smallest number of at least `step` that is 1, 2 or 5 times a power of ten.
double round_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

std::vector<double> linear_ticks(double low, double high, int wanted) {
  const double step = round_step((high - low) / std::max(1, wanted));
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; i <= 2 * wanted + 2; ++i) {
    const double tick = (first + i) * step;
    if (tick > high + 1e-9 * step) break;
    ticks.push_back(std::abs(tick) < 1e-9 * step ? 0 : tick);
  }
  return ticks;
}

std::vector<double> log_ticks(double low, double high, int wanted) {
  const double decades = std::log10(high / low);
  const int stride = std::max(1, static_cast<int>(std::ceil(decades / std::max(1, wanted))));
  const bool is_short = decades * 3 <= wanted + 2;
  std::vector<double> ticks;
  for (int power = static_cast<int>(std::floor(std::log10(low))); power <= std::log10(high); power += stride)
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && !is_short) continue;
      const double tick = factor * std::pow(10.0, power);
      if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push_back(tick);
    }
  return ticks.size() >= 2 ? ticks : linear_ticks(low, high, wanted);
}

} // namespace

Unit time_unit(double largest_us) {
  if (largest_us < 1000) return {1, "us"};
  return largest_us < 1e6 ? Unit{1e3, "ms"} : Unit{1e6, "s"};
}

Unit byte_unit(double largest_bytes) {
  if (largest_bytes < 1024) return {1, "bytes"};
  if (largest_bytes < 1024.0 * 1024) return {1024, "KiB"};
  return largest_bytes < 1024.0 * 1024 * 1024 ? Unit{1024.0 * 1024, "MiB"} : Unit{1024.0 * 1024 * 1024, "GiB"};
}

std::string short_number(double value) {
  // number_text writes powers of ten from 10^4 on, which is no good for row counts.
  return std::abs(value) >= 1000 && std::abs(value) < 1e7 ? number(value, "%.0f") : number_text(value);
}

Scale Scale::linear(double low, double high, double from, double to) {
  if (!std::isfinite(low) || !std::isfinite(high)) low = 0, high = 1;
  if (!(high > low)) high = low + std::max(1.0, std::abs(low));
  return {low, high, from, to, false};
}

Scale Scale::logarithmic(double low, double high, double from, double to) {
  if (!(low > 0) || !std::isfinite(low) || !std::isfinite(high)) return linear(low, high, from, to);
  if (!(high > low)) high = low * 10;
  return {low, high, from, to, true};
}

double Scale::at(double value) const noexcept {
  const double fraction =
      is_log_ ? std::log(std::max(value, low_) / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return from_ + std::clamp(std::isfinite(fraction) ? fraction : 0.0, 0.0, 1.0) * (to_ - from_);
}

double Scale::value_at(double fraction) const noexcept {
  return is_log_ ? low_ * std::pow(high_ / low_, fraction) : low_ + fraction * (high_ - low_);
}

std::vector<double> Scale::ticks(int wanted) const {
  return is_log_ ? log_ticks(low_, high_, wanted) : linear_ticks(low_, high_, wanted);
}

void Plot::axes(const AxisText& x, const AxisText& y, bool with_x_labels) {
  rectangle(out_, box_, "frame");
  // Compute ticks in the unit that is shown, so that the labels are round.
  const auto in_unit = [](const Scale& scale, const Unit& unit, int count) {
    const bool is_log = scale.value_at(0.5) < 0.5 * (scale.low() + scale.high()) * (1 - 1e-9);
    const double low = scale.low() / unit.size, high = scale.high() / unit.size;
    return (is_log ? Scale::logarithmic(low, high, 0, 1) : Scale::linear(low, high, 0, 1)).ticks(count);
  };
  for (const double tick : in_unit(x_, x.unit, x.tick_count)) {
    const double at = x_.at(tick * x.unit.size);
    segment(out_, {at, box_.top}, {at, box_.bottom + kTickLength}, "grid");
    if (with_x_labels) label(out_, at, box_.bottom + kTickTextHeight, "middle", "tick", short_number(tick));
  }
  for (const double tick : in_unit(y_, y.unit, y.tick_count)) {
    const double at = y_.at(tick * y.unit.size);
    segment(out_, {box_.left - kTickLength, at}, {box_.right, at}, "grid");
    label(out_, box_.left - 7, at + 4, "end", "tick", short_number(tick));
  }
  if (with_x_labels)
    label(out_, (box_.left + box_.right) / 2, box_.bottom + kAxisTextHeight, "middle", "axis", x.label);
  const double middle = (box_.top + box_.bottom) / 2, left = box_.left - 46;
  out_.element("text",
               {{"x", coordinate(left)},
                {"y", coordinate(middle)},
                {"class", "axis"},
                {"text-anchor", "middle"},
                {"transform", "rotate(-90 " + coordinate(left) + " " + coordinate(middle) + ")"}},
               y.label);
}

std::string Plot::path(const std::vector<Point>& points) const {
  std::string text;
  for (const auto& point : points)
    text += (text.empty() ? "M" : "L") + coordinate(x_.at(point.x)) + " " + coordinate(y_.at(point.y));
  return text;
}

void Plot::line(const std::vector<Point>& points, const char* style) {
  if (!points.empty()) out_.leaf("path", {{"class", style}, {"d", path(points)}});
}

void Plot::band(const std::vector<Point>& lower, const std::vector<Point>& upper, const char* style) {
  if (lower.empty()) return;
  std::vector<Point> around = lower;
  around.insert(around.end(), upper.rbegin(), upper.rend());
  out_.leaf("path", {{"class", style}, {"d", path(around) + "Z"}});
}

void Plot::dots(const std::vector<Point>& points, double radius, const char* style) {
  for (const auto& point : points)
    out_.leaf("circle", {{"class", style},
                         {"cx", coordinate(x_.at(point.x))},
                         {"cy", coordinate(y_.at(point.y))},
                         {"r", coordinate(radius)}});
}

void Plot::crosses(const std::vector<Point>& points, double radius, const char* style) {
  for (const auto& point : points) {
    const double x = x_.at(point.x), y = y_.at(point.y);
    out_.leaf("path",
              {{"class", style},
               {"d", "M" + coordinate(x - radius) + " " + coordinate(y - radius) + "L" + coordinate(x + radius) + " " +
                         coordinate(y + radius) + "M" + coordinate(x - radius) + " " + coordinate(y + radius) + "L" +
                         coordinate(x + radius) + " " + coordinate(y - radius)}});
  }
}

void Plot::vertical(double x, const char* style) {
  segment(out_, {x_.at(x), box_.top}, {x_.at(x), box_.bottom}, style);
}

void Plot::horizontal(double y, const char* style) {
  segment(out_, {box_.left, y_.at(y)}, {box_.right, y_.at(y)}, style);
}

void Plot::shade(double from_x, double to_x, const char* style) {
  const double left = x_.at(from_x), right = x_.at(to_x);
  if (right > left) rectangle(out_, {left, box_.top, right, box_.bottom}, style);
}

void label(Markup& out, double x, double y, const char* anchor, const char* style, std::string_view text) {
  out.element("text", {{"x", coordinate(x)}, {"y", coordinate(y)}, {"text-anchor", anchor}, {"class", style}}, text);
}

void segment(Markup& out, Point from, Point to, const char* style) {
  out.leaf("line", {{"class", style},
                    {"x1", coordinate(from.x)},
                    {"y1", coordinate(from.y)},
                    {"x2", coordinate(to.x)},
                    {"y2", coordinate(to.y)}});
}

void rectangle(Markup& out, const Box& box, const char* style, std::string_view tooltip) {
  const Markup::Attributes attributes{{"class", style},
                                      {"x", coordinate(box.left)},
                                      {"y", coordinate(box.top)},
                                      {"width", coordinate(box.right - box.left)},
                                      {"height", coordinate(box.bottom - box.top)}};
  if (tooltip.empty()) {
    out.leaf("rect", attributes);
    return;
  }
  out.open("rect", attributes).element("title", {}, tooltip).close();
}

void time_axis(Markup& out, const Scale& x, double top, double bottom, const Unit& unit, const std::string& name) {
  for (const double tick : Scale::linear(x.low() / unit.size, x.high() / unit.size, 0, 1).ticks(8)) {
    const double at = x.at(tick * unit.size);
    segment(out, {at, top}, {at, bottom + 4}, "grid");
    label(out, at, bottom + 17, "middle", "tick", short_number(tick));
  }
  label(out, (x.at(x.low()) + x.at(x.high())) / 2, bottom + 34, "middle", "axis", name + ", " + unit.name);
}

void open_svg(Markup& out, double width, double height, std::string_view name) {
  out.open("svg", {{"viewBox", "0 0 " + coordinate(width) + " " + coordinate(height)},
                   {"width", coordinate(width)},
                   {"height", coordinate(height)},
                   {"role", "img"},
                   {"aria-label", std::string(name)}});
  out.element("title", {}, name);
}

void open_svg_document(Markup& out, double width, double height, std::string_view name) {
  out.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                   {"viewBox", "0 0 " + coordinate(width) + " " + coordinate(height)},
                   {"width", coordinate(width)},
                   {"height", coordinate(height)},
                   {"role", "img"}});
  out.element("title", {}, name);
}

} // namespace mc2::render
