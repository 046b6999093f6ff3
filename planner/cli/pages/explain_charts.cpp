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
  bool is_good = false;                ///< whether the plan is as good as that decision

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

/// The value up to which the plan is within 1 % of the best in one direction. For another m or n that is not known, as
/// a plan is for its own m and n only; there it is the value at which the decision changes first.
double good_until(Parameter parameter, const Excursion& excursion) {
  if (excursion.one_percent_value) return *excursion.one_percent_value;
  const bool is_size = parameter == Parameter::Rows || parameter == Parameter::Columns;
  return is_size && !excursion.flips.empty() ? excursion.flips.front().value : excursion.end_value;
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

void disc(Markup& out, const render::Point& at, const char* style, const std::string& tooltip) {
  out.open("circle",
           {{"class", style}, {"cx", render::coordinate(at.x)}, {"cy", render::coordinate(at.y)}, {"r", "4"}});
  out.element("title", {}, tooltip).close();
}

/// One parameter's bars, with the changes of the decision on them and words above them; values are divided by `base` to
/// share an axis with other parameters.
void sensitivity_row(Markup& out, const Rows& rows, std::size_t row, const ParameterSensitivity& p, double base) {
  constexpr double kTop = 1, kBottom = 11, kBarMiddle = (kTop + kBottom) / 2, kWordWidth = 74;
  const double middle = rows.middle(row);
  const auto at = [&](double value) { return rows.x.at(value / base); };
  const auto bar = [&](double low, double high, const char* style, const char* meaning) {
    rectangle(out, {at(low), middle + kTop, std::max(at(high), at(low) + 1), middle + kBottom}, style, meaning);
  };
  label(out, kLeft - 10, middle + 4, "end", "row", parameter_text(p.parameter));
  bar(p.lower.end_value, p.higher.end_value, "tried", "tried");
  if (rows.is_good) bar(good_until(p.parameter, p.lower), good_until(p.parameter, p.higher), "near", kNearText);
  for (const Excursion* excursion : {&p.lower, &p.higher}) {
    for (const Flip& flip : excursion->flips) disc(out, {at(flip.value), middle + kBarMiddle}, "change", flip.text);
    const Flip* flip = notable(*excursion);
    if (flip == nullptr) continue;
    const bool is_lower = excursion == &p.lower;
    // At the left end of the axis the row's name leaves no room for the word.
    if (is_lower && at(flip->value) - kWordWidth < kLeft) continue;
    label(out, at(flip->value), middle - 3, is_lower ? "end" : "start", "flip", flip_word(*flip, *rows.today));
  }
  segment(out, {at(p.value), middle + kTop - 3}, {at(p.value), middle + kBottom + 3}, "today");
}

double ratio_base(const ParameterSensitivity& p) { return p.value; }

/// The panel of parameters that are shown as multiples of today's value.
void ratio_panel(Markup& out, double top, const std::vector<ParameterSensitivity>& parameters,
                 const planner::Sensitivity& sensitivity) {
  const double bottom = top + kRowHeight * static_cast<double>(parameters.size());
  constexpr double kMost = planner::kMaxSensitivityFactor * 1.6; // leaves room for words beside the bars
  const Rows rows{Scale::logarithmic(1 / kMost, kMost, kLeft, kWidth - 20), top, &sensitivity.best_cut,
                  sensitivity.is_as_good()};
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
                 const planner::Sensitivity& sensitivity) {
  const double bottom = top + kRowHeight * static_cast<double>(parameters.size());
  const Rows rows{Scale::linear(0, shown_us(parameters), kLeft, kWidth - kRight), top, &sensitivity.best_cut,
                  sensitivity.is_as_good()};
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
  ratio_panel(out, 4, ratios, sensitivity);
  if (!added.empty()) added_panel(out, added_top, added, sensitivity);
  return out.close();
}

} // namespace mc2::cli
