#include "pages/explain_charts.hpp"

#include <algorithm>
#include <array>

#include "mc2/planner/text.hpp"
#include "mc2/render/plot.hpp"
#include "mc2/render/timeline_chart.hpp"
#include "pages/explain_page.hpp"
#include "pages/render.hpp"

namespace mc2::cli {
namespace {

using planner::Explanation;
using render::Box;
using render::clipped;
using render::lane_style;
using render::Markup;
using render::Scale;
using render::short_number;
using render::time_unit;

constexpr double kWidth = 860, kLeft = 190, kRight = 110;
constexpr double kRowHeight = 30, kBarHeight = 18, kLossTextWidth = 150;
constexpr std::size_t kMaxDrawnLosers = 12;
constexpr double kVariantLeft = 340; ///< left edge of bars in rows that name variants
constexpr std::size_t kMaxBarCut = 30, kMaxBarVariant = 50;

/// A chart with one row per bar: names on the left, texts on the right.
struct Rows {
  Scale x;
  double top = 0;
  const planner::Cut* today = nullptr; ///< the present decision; set in rows of parameters

  [[nodiscard]] double middle(std::size_t row) const { return top + kRowHeight * (static_cast<double>(row) + 0.5); }
  [[nodiscard]] Box bar(std::size_t row, double from, double to) const {
    const double left = x.at(std::min(from, to)), right = std::max(x.at(std::max(from, to)), left + 1);
    return {left, middle(row) - kBarHeight / 2, right, middle(row) + kBarHeight / 2};
  }
};

using planner::Excursion;
using planner::Flip;
using planner::FlipKind;
using planner::Parameter;
using planner::ParameterSensitivity;

/// The value of the first flip of at least this kind, or the end of the tried range.
double reach(const Excursion& excursion, FlipKind kind) {
  for (const Flip& flip : excursion.flips)
    if (flip.kind >= kind) return flip.value;
  return excursion.end_value;
}

/// The new decision in a word or two.
std::string flip_word(const Flip& flip, const planner::Cut& today) {
  if (has_same_blocks(flip.cut, today)) return "other variant";
  const std::size_t count = flip.cut.block_rows.size();
  return count == 1 ? "uncut" : std::to_string(count) + " blocks";
}

const Flip* notable(const Excursion& excursion) {
  for (const Flip& flip : excursion.flips)
    if (flip.kind != FlipKind::OtherLengths) return &flip;
  return nullptr;
}

constexpr double kWordWidth = 74;

/// The end of the flip's word that is next to the flip: beside the flip, or beyond the 1 % mark if that would cross the
/// word.
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
    // At the left end of the axis the row's name leaves no room for the word.
    if (is_lower && at - kWordWidth < kLeft) continue;
    label(out, at, rows.middle(row) + 4, is_lower ? "end" : "start", "flip", flip_word(*flip, *rows.today));
  }
  segment(out, {rows.x.at(p.value / base), rows.middle(row) - 13}, {rows.x.at(p.value / base), rows.middle(row) + 13},
          "today");
}

double ratio_base(const ParameterSensitivity& p) { return p.value; }

/// The panel of parameters that are shown as multiples of today's value.
void ratio_panel(Markup& out, double top, const std::vector<ParameterSensitivity>& parameters,
                 const planner::Cut& today) {
  const double bottom = top + kRowHeight * static_cast<double>(parameters.size());
  constexpr double kMost = planner::kMaxSensitivityFactor * 1.6; // leaves room for words beside the bars
  const Rows rows{Scale::logarithmic(1 / kMost, kMost, kLeft, kWidth - 20), top, &today};
  for (const double tick : {0.25, 0.5, 1.0, 2.0, 4.0}) {
    segment(out, {rows.x.at(tick), top}, {rows.x.at(tick), bottom + 4}, "grid");
    label(out, rows.x.at(tick), bottom + 17, "middle", "tick", "x" + short_number(tick));
  }
  label(out, (kLeft + kWidth - 20) / 2, bottom + 34, "middle", "axis", "value / today's value");
  for (std::size_t i = 0; i < parameters.size(); ++i)
    sensitivity_row(out, rows, i, parameters[i], ratio_base(parameters[i]));
}

/// The largest added time to show: beyond today's values, the notable flips and the 1 % marks, or the end of the tried
/// range if there is no flip.
double shown_us(const std::vector<ParameterSensitivity>& parameters) {
  double most = 0;
  for (const auto& p : parameters) {
    const Flip* flip = notable(p.higher);
    most = std::max({most, 2 * p.value, flip != nullptr ? 1.6 * flip->value : p.higher.end_value});
    if (p.higher.one_percent_value) most = std::max(most, 1.2 * *p.higher.one_percent_value);
  }
  return most;
}

void added_panel(Markup& out, double top, const std::vector<ParameterSensitivity>& parameters,
                 const planner::Cut& today) {
  const double bottom = top + kRowHeight * static_cast<double>(parameters.size());
  const Rows rows{Scale::linear(0, shown_us(parameters), kLeft, kWidth - kRight), top, &today};
  time_axis(out, rows.x, top, bottom, time_unit(rows.x.high()), "per block");
  for (std::size_t i = 0; i < parameters.size(); ++i) sensitivity_row(out, rows, i, parameters[i], 1);
}

} // namespace

Markup account_chart(const Explanation& explanation) {
  const planner::Account& a = explanation.account;
  const std::array parts = account_parts(a);
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
    const auto& [name, us, text] = parts[i];
    label(out, kLeft - 10, rows.middle(i) + 4, "end", "row", name);
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
  const bool has_variants =
      std::any_of(plan.runners_up.begin(), plan.runners_up.begin() + static_cast<std::ptrdiff_t>(count),
                  [&](const auto& loser) { return loser.variant != plan.variant; });
  const double left = has_variants ? kVariantLeft : kLeft;
  const Rows rows{Scale::linear(least, most, left, kWidth - kLossTextWidth), 4};
  const double bottom = 4 + kRowHeight * static_cast<double>(count);
  time_axis(out, rows.x, 4, bottom, {1, "%"}, "predicted, slower than the plan");
  for (std::size_t i = 0; i < count; ++i) {
    const auto& loser = plan.runners_up[i];
    const std::string name = clipped(loser.cut.text(), kMaxBarCut);
    label(out, left - 10, rows.middle(i) + (has_variants ? -2 : 4), "end", "row", name);
    if (has_variants)
      label(out, left - 10, rows.middle(i) + 11, "end", "tick", clipped(loser.variant.text(), kMaxBarVariant));
    rectangle(out, rows.bar(i, 0, loss(i)), "loser", name + ": " + clipped(loser.reason, 200));
    const std::string text = number(loss(i), "%+.2f %%, ") + signed_time(lost_us(explanation.losses[i]));
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
  ratio_panel(out, 4, ratios, sensitivity.best_cut);
  if (!added.empty()) added_panel(out, added_top, added, sensitivity.best_cut);
  return out.close();
}

} // namespace mc2::cli
