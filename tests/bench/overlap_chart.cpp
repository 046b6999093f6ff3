#include "overlap_chart.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "mc2/planner/text.hpp"
#include "mc2/render/plot.hpp"
#include "pages/render.hpp"

namespace mc2::cli {
namespace {

using render::Box;
using render::coordinate;
using render::Markup;
using render::Point;
using render::Scale;
using render::short_number;
using render::Unit;

constexpr double kWidth = 960, kLeft = 260, kRight = 700, kSerialEnd = kRight + 74, kRatioEnd = kRight + 152,
                 kPeerEnd = kRight + 246, kTop = 104;
constexpr double kRowHeight = 21, kKindHeight = 36, kFoot = 58;
constexpr double kDotRadius = 5, kCrossRadius = 4.5, kTickHeight = 7;
constexpr double kMostPercent = 200; ///< longer times are drawn at the edge

/// Colours that colour-blind readers can tell apart (Okabe and Ito), and marks that differ in grey.
constexpr const char* kStyle = R"css(
text { font: 13px 'DejaVu Sans', Verdana, sans-serif; fill: #1d2126; }
.tick, .axis, .note { fill: #4a525c; font-size: 12px; } .heading { font-size: 15px; font-weight: bold; }
.kind { font-weight: bold; }
.page { fill: #ffffff; } .grid { stroke: #e4e7ea; } .serial { stroke: #1d2126; stroke-width: 1.5; }
.gained { stroke: #9bc7e4; stroke-width: 6; } .left { stroke: #e4e7ea; stroke-width: 6; }
.lost { stroke: #f3b79a; stroke-width: 6; } .ideal { stroke: #1d2126; stroke-width: 2; }
.mc2 { fill: #0072b2; } .peer { fill: none; stroke: #d55e00; stroke-width: 2.4; }
)css";

// Times in percent of serial:
double mc2_percent(const OverlapRow& row) { return 100 / row.serial_over_mc2; }
double ideal_percent(const OverlapRow& row) { return 100 * row.ideal_us / row.serial_us; }
std::optional<double> peer_percent(const OverlapRow& row) {
  if (!row.peer_over_mc2) return std::nullopt;
  return mc2_percent(row) * *row.peer_over_mc2;
}

/// The scale of the chart: from a multiple of ten below all values to one above.
Scale scale_of(std::span<const OverlapRow> rows) {
  double least = 90, most = 100;
  for (const OverlapRow& row : rows) {
    for (const double percent : {mc2_percent(row), ideal_percent(row), peer_percent(row).value_or(100)}) {
      least = std::min(least, percent);
      most = std::max(most, percent);
    }
  }
  return Scale::linear(std::max(0.0, std::floor((least - 3) / 10) * 10),
                       std::min(kMostPercent, std::ceil((most + 3) / 10) * 10), kLeft, kRight);
}

void draw_dot(Markup& out, double x, double y) {
  out.leaf("circle", {{"class", "mc2"}, {"cx", coordinate(x)}, {"cy", coordinate(y)}, {"r", coordinate(kDotRadius)}});
}

void draw_cross(Markup& out, double x, double y) {
  segment(out, {x - kCrossRadius, y - kCrossRadius}, {x + kCrossRadius, y + kCrossRadius}, "peer");
  segment(out, {x - kCrossRadius, y + kCrossRadius}, {x + kCrossRadius, y - kCrossRadius}, "peer");
}

void draw_ideal(Markup& out, double x, double y) { segment(out, {x, y - kTickHeight}, {x, y + kTickHeight}, "ideal"); }

void draw_legend(Markup& out, const std::string& peer_name, bool has_peer) {
  constexpr double kY = 56, kMark = 26, kStep = 116;
  double x = kLeft - 112;
  const auto name = [&](const std::string& text) {
    label(out, x + kMark, kY + 4, "start", "", text);
    x += kStep;
  };
  draw_dot(out, x + 13, kY);
  name("mc2");
  draw_ideal(out, x + 13, kY);
  name("ideal");
  for (const auto& [style, text] : {std::pair{"gained", "gained"}, {"left", "left to gain"}, {"lost", "lost"}}) {
    segment(out, {x, kY}, {x + 20, kY}, style);
    name(text);
  }
  if (!has_peer) return;
  draw_cross(out, x + 13, kY);
  name(peer_name);
}

void draw_row(Markup& out, const Scale& x, double y, const OverlapRow& row) {
  const double ideal = x.at(ideal_percent(row)), mc2 = x.at(mc2_percent(row)), serial = x.at(100);
  label(out, kLeft - 12, y + 4, "end", "", shape_text(row.op));
  segment(out, {std::min(ideal, mc2), y}, {std::max(ideal, mc2), y}, "left");
  segment(out, {mc2, y}, {serial, y}, mc2 <= serial ? "gained" : "lost");
  draw_ideal(out, ideal, y);
  if (const auto peer = peer_percent(row)) draw_cross(out, x.at(*peer), y);
  draw_dot(out, mc2, y);
  label(out, kSerialEnd, y + 4, "end", "tick", time_text(row.serial_us));
  label(out, kRatioEnd, y + 4, "end", "tick", number(row.serial_over_mc2, "%.2fx"));
  if (row.peer_over_mc2) label(out, kPeerEnd, y + 4, "end", "tick", number(*row.peer_over_mc2, "%.2fx"));
}

} // namespace

std::string shape_text(const planner::OpSpec& op) {
  const std::string sizes = std::to_string(op.m) + " x " + std::to_string(op.n) + " x " + std::to_string(op.k);
  if (op.world_size == 0) return sizes;
  return sizes + " " + std::string(to_string(op.dtype)) + " x" + std::to_string(op.world_size);
}

std::string overlap_chart(const std::string& title, const std::string& peer_name, std::span<const OverlapRow> rows) {
  MC2_CHECK(!rows.empty(), "a chart has rows");
  std::vector<planner::OpKind> kinds;
  for (const OverlapRow& row : rows)
    if (std::ranges::find(kinds, row.op.kind) == kinds.end()) kinds.push_back(row.op.kind);
  const double bottom =
      kTop + kKindHeight * static_cast<double>(kinds.size()) + kRowHeight * static_cast<double>(rows.size());
  const bool has_peer = std::ranges::any_of(rows, [](const OverlapRow& row) { return row.peer_over_mc2.has_value(); });
  const Scale x = scale_of(rows);
  Markup out;
  open_svg_document(out, kWidth, bottom + kFoot, title);
  out.style(kStyle);
  rectangle(out, {0, 0, kWidth, bottom + kFoot}, "page");
  label(out, 24, 28, "start", "heading", title);
  draw_legend(out, peer_name, has_peer);
  label(out, kLeft - 12, kTop - 12, "end", "note",
        rows.front().op.world_size == 0 ? "m x n x k" : "m x n x k, type, ranks");
  label(out, kSerialEnd, kTop - 12, "end", "note", "serial");
  label(out, kRatioEnd, kTop - 12, "end", "note", "serial/mc2");
  if (has_peer) label(out, kPeerEnd, kTop - 12, "end", "note", peer_name + "/mc2");
  time_axis(out, x, kTop, bottom, Unit{1, "% of the best serial"}, "time");
  segment(out, {x.at(100), kTop}, {x.at(100), bottom}, "serial");
  double y = kTop;
  for (const planner::OpKind kind : kinds) {
    label(out, 24, y + kKindHeight - 17, "start", "kind", to_string(kind));
    y += kKindHeight;
    for (const OverlapRow& row : rows) {
      if (row.op.kind != kind) continue;
      draw_row(out, x, y, row);
      y += kRowHeight;
    }
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + out.close().str();
}

} // namespace mc2::cli
