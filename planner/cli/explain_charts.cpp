#include "explain_charts.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "explain_page.hpp"
#include "plot.hpp"
#include "render.hpp"

namespace mc2::cli {
namespace {

using planner::Explanation;
using planner::Lane;
using planner::Span;
using planner::Timeline;

constexpr double kWidth = 860, kLeft = 190, kRight = 110;
constexpr double kRowHeight = 30, kBarHeight = 18, kLossTextWidth = 150;
constexpr std::size_t kMaxDrawnLosers = 12;
constexpr std::size_t kMaxCutText = 30;

/// A chart with one row per bar: names on the left, texts on the right.
struct Rows {
  Scale x;
  double top = 0;

  [[nodiscard]] double middle(std::size_t row) const { return top + kRowHeight * (static_cast<double>(row) + 0.5); }
  [[nodiscard]] Box bar(std::size_t row, double from, double to) const {
    const double left = x.at(std::min(from, to)), right = std::max(x.at(std::max(from, to)), left + 1);
    return {left, middle(row) - kBarHeight / 2, right, middle(row) + kBarHeight / 2};
  }
};

void time_axis(Markup& out, const Scale& x, double top, double bottom, const Unit& unit, const std::string& name) {
  for (const double tick : Scale::linear(x.low() / unit.size, x.high() / unit.size, 0, 1).ticks(8)) {
    const double at = x.at(tick * unit.size);
    segment(out, {at, top}, {at, bottom + 4}, "grid");
    label(out, at, bottom + 17, "middle", "tick", short_number(tick));
  }
  label(out, (x.at(x.low()) + x.at(x.high())) / 2, bottom + 34, "middle", "axis", name + ", " + unit.name);
}

// ---- timeline

const char* lane_style(Lane lane, std::size_t block) {
  if (lane == Lane::Compute) return block % 2 == 0 ? "compute" : "compute odd";
  return block % 2 == 0 ? "communication" : "communication odd";
}

/// What a lane's blocks are called.
struct Blocks {
  std::vector<std::int64_t> lengths;
  std::string unit; ///< "rows" or "columns"
};

/// Draws one lane's blocks. Neighbours too narrow to be told apart become one bar, which bounds the drawing for any
/// number of blocks.
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
    const std::string name = first == last ? "block " + number + ", " + std::to_string(blocks_.lengths[first]) + " " + blocks_.unit
                                           : "blocks " + number + " to " + std::to_string(last + 1);
    rectangle(out_, {left, top_, right, top_ + kBlockHeight}, lane_style(lane_, first),
              std::string(to_string(lane_)) + " " + name + ": " + time_text(start_us) + " to " + time_text(end_us));
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
  const Lane second = first == Lane::Compute ? Lane::Communication : Lane::Compute;
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

// ---- sensitivity

using planner::Excursion;
using planner::Flip;
using planner::FlipKind;
using planner::Parameter;
using planner::ParameterSensitivity;

/// Where a flip of at least this kind lies, or the end of what was tried.
double reach(const Excursion& excursion, FlipKind kind) {
  for (const Flip& flip : excursion.flips)
    if (flip.kind >= kind) return flip.value;
  return excursion.end_value;
}

/// The new decision in a word.
std::string flip_word(const Flip& flip) {
  const std::size_t count = flip.cut.block_rows.size();
  return count == 1 ? "uncut" : std::to_string(count) + " blocks";
}

const Flip* notable(const Excursion& excursion) {
  for (const Flip& flip : excursion.flips)
    if (flip.kind != FlipKind::OtherLengths) return &flip;
  return nullptr;
}

constexpr double kWordWidth = 64;

/// Beside the flip, or beyond the mark of 1 % where that would run through the word.
double word_place(const Scale& x, const Flip& flip, const Excursion& excursion, bool is_lower, double base) {
  constexpr double kGap = 4;
  const double at = x.at(flip.value / base);
  if (!excursion.one_percent_value) return is_lower ? at - kGap : at + kGap;
  const double mark = x.at(*excursion.one_percent_value / base);
  const bool is_crossed = is_lower ? mark <= at && mark > at - kWordWidth : mark >= at && mark < at + kWordWidth;
  const double from = is_crossed ? mark : at;
  return is_lower ? from - kGap : from + kGap;
}

/// One parameter's bars; values are divided by `base` to share an axis with other parameters.
void sensitivity_row(Markup& out, const Rows& rows, std::size_t row, const ParameterSensitivity& p, double base) {
  const auto bar = [&](FlipKind kind, const char* style, const char* meaning) {
    rectangle(out, rows.bar(row, reach(p.lower, kind) / base, reach(p.higher, kind) / base), style, meaning);
  };
  label(out, kLeft - 10, rows.middle(row) + 4, "end", "row", parameter_text(p.parameter));
  rectangle(out, rows.bar(row, p.lower.end_value / base, p.higher.end_value / base), "tried", "tried");
  bar(FlipKind::OtherCount, "samecount", "as many blocks");
  bar(FlipKind::OtherLengths, "samecut", "this very cut");
  for (const Excursion* excursion : {&p.lower, &p.higher}) {
    if (excursion->one_percent_value) {
      const double at = rows.x.at(*excursion->one_percent_value / base);
      segment(out, {at, rows.middle(row) - 12}, {at, rows.middle(row) + 12}, "onepercent");
    }
    const Flip* flip = notable(*excursion);
    if (flip == nullptr) continue;
    const bool is_lower = excursion == &p.lower;
    const double at = word_place(rows.x, *flip, *excursion, is_lower, base);
    // At the axis' end there is no room left of a bar: the row's name stands there.
    if (is_lower && at - kWordWidth < kLeft) continue;
    label(out, at, rows.middle(row) + 4, is_lower ? "end" : "start", "flip", flip_word(*flip));
  }
  segment(out, {rows.x.at(p.value / base), rows.middle(row) - 13}, {rows.x.at(p.value / base), rows.middle(row) + 13},
          "today");
}

double ratio_base(const ParameterSensitivity& p) { return p.value; }

/// Parameters as multiples of today's value.
void ratio_panel(Markup& out, double top, const std::vector<ParameterSensitivity>& parameters) {
  const double bottom = top + kRowHeight * static_cast<double>(parameters.size());
  constexpr double kMost = planner::kMaxSensitivityFactor * 1.6; // room for words beside the bars
  const Rows rows{Scale::logarithmic(1 / kMost, kMost, kLeft, kWidth - 20), top};
  for (const double tick : {0.25, 0.5, 1.0, 2.0, 4.0}) {
    segment(out, {rows.x.at(tick), top}, {rows.x.at(tick), bottom + 4}, "grid");
    label(out, rows.x.at(tick), bottom + 17, "middle", "tick", "x" + short_number(tick));
  }
  label(out, (kLeft + kWidth - 20) / 2, bottom + 34, "middle", "axis", "value / today's value");
  for (std::size_t i = 0; i < parameters.size(); ++i)
    sensitivity_row(out, rows, i, parameters[i], ratio_base(parameters[i]));
}

/// The furthest thing worth showing of an added time: twice its nearest important flip, or all that was tried.
double shown_us(const std::vector<ParameterSensitivity>& parameters) {
  double most = 0;
  for (const auto& p : parameters) {
    const Flip* flip = notable(p.higher);
    most = std::max({most, 2 * p.value, flip != nullptr ? 1.6 * flip->value : p.higher.end_value});
    if (p.higher.one_percent_value) most = std::max(most, 1.2 * *p.higher.one_percent_value);
  }
  return most;
}

void added_panel(Markup& out, double top, const std::vector<ParameterSensitivity>& parameters) {
  const double bottom = top + kRowHeight * static_cast<double>(parameters.size());
  const Rows rows{Scale::linear(0, shown_us(parameters), kLeft, kWidth - kRight), top};
  time_axis(out, rows.x, top, bottom, time_unit(rows.x.high()), "per block");
  for (std::size_t i = 0; i < parameters.size(); ++i) sensitivity_row(out, rows, i, parameters[i], 1);
}

} // namespace

Markup timeline_chart(const Explanation& explanation) {
  const Timeline& predicted = explanation.plan.timeline;
  const double longest_us =
      std::max({predicted.makespan_us, explanation.measured ? explanation.measured->timeline.makespan_us : 0, 1e-6});
  const double height = (explanation.measured ? 2 : 1) * kGroupHeight + 50;
  Markup out;
  open_svg(out, kWidth, height, "When each block is on each lane");
  const Scale x = Scale::linear(0, longest_us, kLeft - 60, kWidth - 30);
  time_axis(out, x, 18, height - 46, time_unit(longest_us), "time");
  timeline_group(out, x, 4, "predicted, " + time_text(predicted.makespan_us), explanation, predicted);
  if (explanation.measured)
    timeline_group(out, x, 4 + kGroupHeight,
                   "measured, slowest rank, " + time_text(explanation.measured->timeline.makespan_us), explanation,
                   explanation.measured->timeline);
  return out.close();
}

Markup account_chart(const Explanation& explanation) {
  const planner::Account& a = explanation.account;
  const std::string lane(to_string(a.lane));
  const std::string other(to_string(a.lane == Lane::Compute ? Lane::Communication : Lane::Compute));
  const std::array parts{std::pair{lane + ", uncut", a.uncut_us},
                         std::pair{std::string("cutting it"), a.cutting_us},
                         std::pair{"slowed by " + other, a.contention_us},
                         std::pair{std::string("waits at the start"), a.before_us},
                         std::pair{std::string("waits between blocks"), a.between_us},
                         std::pair{std::string("waits at the end"), a.after_us}};
  const planner::Plan& plan = explanation.plan;
  const double makespan_us = plan.timeline.makespan_us;
  const double most = std::max({makespan_us, plan.serial_us, a.uncut_us, a.uncut_us + a.cutting_us, 1e-6});
  constexpr double kRowCount = parts.size() + 2;
  Markup out;
  open_svg(out, kWidth, kRowCount * kRowHeight + 52, "Where the makespan goes");
  const Rows rows{Scale::linear(0, most, kLeft, kWidth - kRight), 4};
  time_axis(out, rows.x, 4, kRowCount * kRowHeight + 4, time_unit(most), "time");
  double sum_us = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [name, us] = parts[i];
    label(out, kLeft - 10, rows.middle(i) + 4, "end", "row", name);
    const std::string text = i == 0 ? time_text(us) : signed_time(us);
    if (text != "0")
      rectangle(out, rows.bar(i, sum_us, sum_us + us), i == 0 ? lane_style(a.lane, 0) : "part", name + ": " + text);
    sum_us += us;
    label(out, rows.bar(i, std::max(sum_us, sum_us - us), 0).right + 6, rows.middle(i) + 4, "start", "value", text);
  }
  const auto total = [&](std::size_t row, const char* name, double us, const char* style) {
    label(out, kLeft - 10, rows.middle(row) + 4, "end", "row strong", name);
    rectangle(out, rows.bar(row, 0, us), style, std::string(name) + ": " + time_text(us));
    label(out, rows.bar(row, 0, us).right + 6, rows.middle(row) + 4, "start", "value", time_text(us));
  };
  total(parts.size(), "= makespan", makespan_us, "total");
  total(parts.size() + 1, "serial, for comparison", plan.serial_us, "serial");
  return out.close();
}

Markup loss_chart(const Explanation& explanation) {
  const planner::Plan& plan = explanation.plan;
  const std::size_t count = std::min({explanation.losses.size(), plan.runners_up.size(), kMaxDrawnLosers});
  const auto loss = [&](std::size_t i) {
    return plan.makespan.us > 0 ? 100 * lost_us(explanation.losses[i]) / plan.makespan.us : 0;
  };
  double most = 0.1, least = 0;
  for (std::size_t i = 0; i < count; ++i) most = std::max(most, loss(i)), least = std::min(least, loss(i));
  Markup out;
  open_svg(out, kWidth, static_cast<double>(count) * kRowHeight + 52, "How much slower each runner-up is");
  const Rows rows{Scale::linear(least, most, kLeft, kWidth - kLossTextWidth), 4};
  const double bottom = 4 + kRowHeight * static_cast<double>(count);
  time_axis(out, rows.x, 4, bottom, {1, "%"}, "predicted, slower than the plan");
  for (std::size_t i = 0; i < count; ++i) {
    const auto& loser = plan.runners_up[i];
    const std::string name = clipped(loser.cut.text(), kMaxCutText);
    label(out, kLeft - 10, rows.middle(i) + 4, "end", "row", name);
    rectangle(out, rows.bar(i, 0, loss(i)), "loser", name + ": " + clipped(loser.reason, 200));
    char text[64];
    std::snprintf(text, sizeof text, "%+.2f %%, %s", loss(i), signed_time(lost_us(explanation.losses[i])).c_str());
    label(out, rows.bar(i, 0, loss(i)).right + 6, rows.middle(i) + 4, "start", "value", text);
  }
  return out.close();
}

Markup sensitivity_chart(const planner::Sensitivity& sensitivity) {
  std::vector<ParameterSensitivity> ratios, added;
  for (const auto& p : sensitivity.parameters) (p.unit == "us" ? added : ratios).push_back(p);
  const double added_top = 4 + kRowHeight * static_cast<double>(ratios.size()) + 56;
  const double height = added_top + kRowHeight * static_cast<double>(added.size()) + 46;
  Markup out;
  open_svg(out, kWidth, height, "How far each parameter may move before the decision changes");
  ratio_panel(out, 4, ratios);
  if (!added.empty()) added_panel(out, added_top, added);
  return out.close();
}

} // namespace mc2::cli
