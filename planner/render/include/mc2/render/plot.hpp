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

/// us, ms or s. In ms, the largest value has one to three digits before the point; us takes the smaller values and s
/// the larger ones.
[[nodiscard]] Unit time_unit(double largest_us);
/// bytes, KiB, MiB or GiB, by the largest value.
[[nodiscard]] Unit byte_unit(double largest_bytes);
/// At most four significant digits, no trailing zeros.
[[nodiscard]] std::string short_number(double value);

/// Maps values to coordinates, linearly or by their logarithm, and gives round values for ticks.
class Scale {
 public:
  /// Replaces ends that are equal or not finite by an interval that can be drawn.
  [[nodiscard]] static Scale linear(double low, double high, double from, double to);
  /// Needs `low` above 0; without, the scale is linear.
  [[nodiscard]] static Scale logarithmic(double low, double high, double from, double to);

  /// The coordinate of a value; that of the nearer end if the value lies beyond it.
  [[nodiscard]] double at(double value) const noexcept;
  /// The value at a fraction of the way from the low end (0) to the high end (1).
  [[nodiscard]] double value_at(double fraction) const noexcept;
  [[nodiscard]] bool contains(double value) const noexcept { return value >= low_ && value <= high_; }
  [[nodiscard]] double low() const noexcept { return low_; }
  [[nodiscard]] double high() const noexcept { return high_; }
  /// About `wanted` round values between the ends, each 1, 2 or 5 times a power of ten.
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

/// The place of a plot in its drawing, in px.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};

/// The texts of one axis. Its tick labels show values divided by `unit.size`.
struct AxisText {
  std::string label;
  Unit unit;
  int tick_count = 6;
};

/// An x-y plot inside an SVG element. Draw the axes first, then lines, dots and the like. Styles are class names of
/// the page's style sheet.
class Plot {
 public:
  Plot(Markup& out, const Box& box, Scale x, Scale y) : out_(out), box_(box), x_(x), y_(y) {}

  /// Draws grid, tick labels and axis labels. @param with_x_labels  false if a plot below shares the x axis
  void axes(const AxisText& x, const AxisText& y, bool with_x_labels = true);
  void line(const std::vector<Point>& points, const char* style);
  /// Fills the area between two lines with equally many points.
  void band(const std::vector<Point>& lower, const std::vector<Point>& upper, const char* style);
  /// Draws discs; a point outside the plot is drawn at its edge.
  void dots(const std::vector<Point>& points, double radius, const char* style);
  void crosses(const std::vector<Point>& points, double radius, const char* style);
  void vertical(double x, const char* style);
  void horizontal(double y, const char* style);
  /// Shades the part of the plot between two values of x.
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

/// Draws a text at (x, y). @param anchor  "start", "middle" or "end": which part of the text is at x
void label(Markup& out, double x, double y, const char* anchor, const char* style, std::string_view text);
void segment(Markup& out, Point from, Point to, const char* style);
/// Draws a rectangle, with a tooltip unless `tooltip` is empty.
void rectangle(Markup& out, const Box& box, const char* style, std::string_view tooltip = {});
/// Draws a time axis for rows of bars: grid lines from `top` to `bottom`, then tick labels, then "name, unit".
void time_axis(Markup& out, const Scale& x, double top, double bottom, const Unit& unit, const std::string& name);
/// Opens an <svg> element of this size, with a name for screen readers. The caller closes it.
void open_svg(Markup& out, double width, double height, std::string_view name);
/// As open_svg(), but for an SVG file of its own.
void open_svg_document(Markup& out, double width, double height, std::string_view name);

} // namespace mc2::render
