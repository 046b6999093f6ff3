#pragma once

#include <string>
#include <vector>

#include "mc2/render/markup.hpp"

namespace mc2::render {

/// A unit that numbers are shown in: value / size.
struct Unit {
  double size = 1;
  std::string name;
};

/// us, ms or s, so that the largest value has one to three digits before the point.
[[nodiscard]] Unit time_unit(double largest_us);
/// bytes, KiB, MiB or GiB.
[[nodiscard]] Unit byte_unit(double largest_bytes);
/// At most four significant digits, no trailing zeros.
[[nodiscard]] std::string short_number(double value);

/// Maps values to coordinates, linearly or by their logarithm, and knows round values between its ends.
class Scale {
 public:
  /// Ends that are equal or not finite are widened to something that can be drawn.
  [[nodiscard]] static Scale linear(double low, double high, double from, double to);
  /// low > 0.
  [[nodiscard]] static Scale logarithmic(double low, double high, double from, double to);

  /// Beyond the ends: the end's coordinate.
  [[nodiscard]] double at(double value) const noexcept;
  /// Value at a fraction 0..1 of the way.
  [[nodiscard]] double value_at(double fraction) const noexcept;
  [[nodiscard]] bool contains(double value) const noexcept { return value >= low_ && value <= high_; }
  [[nodiscard]] double low() const noexcept { return low_; }
  [[nodiscard]] double high() const noexcept { return high_; }
  /// 1, 2 or 5 times powers of ten inside the ends, about `wanted` of them.
  [[nodiscard]] std::vector<double> ticks(int wanted) const;

 private:
  Scale(double low, double high, double from, double to, bool is_log)
      : low_(low), high_(high), from_(from), to_(to), is_log_(is_log) {}
  double low_, high_, from_, to_;
  bool is_log_;
};

struct Point {
  double x = 0, y = 0;
};

/// Where a plot stands in its drawing, in px.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};

/// What one axis measures; values are divided by `unit.size` for its labels.
struct AxisText {
  std::string label;
  Unit unit;
  int tick_count = 6;
};

/// An x-y plot inside an SVG element: draw axes first, then what belongs between them. Styles are class names of the
/// page's style sheet.
class Plot {
 public:
  Plot(Markup& out, const Box& box, Scale x, Scale y) : out_(out), box_(box), x_(x), y_(y) {}

  /// Grid, tick labels and axis labels. `with_x_labels` is false where a plot below shares the axis.
  void axes(const AxisText& x, const AxisText& y, bool with_x_labels = true);
  void line(const std::vector<Point>& points, const char* style);
  /// The area between two lines of equal length.
  void band(const std::vector<Point>& lower, const std::vector<Point>& upper, const char* style);
  /// Discs; points outside the plot are drawn at its edge.
  void dots(const std::vector<Point>& points, double radius, const char* style);
  void crosses(const std::vector<Point>& points, double radius, const char* style);
  void vertical(double x, const char* style);
  void horizontal(double y, const char* style);
  /// The part of the plot between two values of x.
  void shade(double from_x, double to_x, const char* style);

  [[nodiscard]] const Scale& x() const noexcept { return x_; }
  [[nodiscard]] const Scale& y() const noexcept { return y_; }
  [[nodiscard]] const Box& box() const noexcept { return box_; }

 private:
  [[nodiscard]] std::string path(const std::vector<Point>& points) const;

  Markup& out_;
  Box box_;
  Scale x_, y_;
};

/// A text at a place; `anchor` is start, middle or end.
void label(Markup& out, double x, double y, const char* anchor, const char* style, std::string_view text);
void segment(Markup& out, Point from, Point to, const char* style);
/// A rectangle with an optional tooltip.
void rectangle(Markup& out, const Box& box, const char* style, std::string_view tooltip = {});
/// Grid and labels of a time axis below rows of bars, from `top` to `bottom`; "name, unit" below it.
void time_axis(Markup& out, const Scale& x, double top, double bottom, const Unit& unit, const std::string& name);
/// Opens <svg> of that size with a name for screen readers; close() it.
void open_svg(Markup& out, double width, double height, std::string_view name);
/// As open_svg, for a file of its own.
void open_svg_document(Markup& out, double width, double height, std::string_view name);

} // namespace mc2::render
