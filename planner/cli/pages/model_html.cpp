#include "pages/model_html.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "mc2/render/plot.hpp"
#include "mc2/render/ranges.hpp"
#include "pages/html.hpp"
#include "pages/model_page.hpp"

namespace mc2::cli {
namespace {

using planner::LlmForm;
using planner::LlmPlan;
using planner::LlmSite;
using planner::LlmStep;
using render::Markup;
using render::Plot;
using render::Point;
using render::Scale;

constexpr double kChartWidth = 860, kChartHeight = 300;
constexpr render::Box kChartBox{60, 12, kChartWidth - 12, kChartHeight - 46};

/// What a form saves, in per cent, at each number of tokens.
struct Savings {
  std::vector<Point> points, low, high;
};

Savings savings_of(const LlmPlan& plan, LlmForm form) {
  Savings result;
  for (const LlmStep& step : plan.steps) {
    if (step.form != form) continue;
    const auto tokens = static_cast<double>(step.tokens);
    const auto interval = step.benefit_interval.value_or(planner::BenefitInterval{step.benefit(), step.benefit()});
    result.points.push_back({tokens, 100 * step.benefit()});
    result.low.push_back({tokens, 100 * interval.low});
    result.high.push_back({tokens, 100 * interval.high});
  }
  return result;
}

/// A scale that holds all intervals and 0.
Scale percent_scale(const Savings& one, const Savings& other) {
  double low = 0, high = 1;
  for (const Savings* savings : {&one, &other}) {
    for (const Point& point : savings->low) low = std::min(low, point.y);
    for (const Point& point : savings->high) high = std::max(high, point.y);
  }
  return Scale::linear(low, high, kChartBox.bottom, kChartBox.top);
}

Markup savings_chart(const LlmPlan& plan) {
  const Savings all_reduce = savings_of(plan, LlmForm::AllReduce);
  const Savings sequence = savings_of(plan, LlmForm::SequenceParallel);
  const auto first = static_cast<double>(plan.steps.front().tokens), last = static_cast<double>(plan.last_tokens);
  Markup out;
  render::open_svg(out, kChartWidth, kChartHeight, "Share of the time that fusing saves, by tokens of a step");
  Plot plot(out, kChartBox, Scale::logarithmic(first, last, kChartBox.left, kChartBox.right),
            percent_scale(all_reduce, sequence));
  plot.axes({"m, tokens of a step", {}, 8}, {"saved, %", {1, "%"}, 5});
  plot.band(all_reduce.low, all_reduce.high, "bandone");
  plot.band(sequence.low, sequence.high, "bandtwo");
  plot.line(all_reduce.points, "lineone");
  plot.line(sequence.points, "linetwo");
  return out.close();
}

void list(Markup& out, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  out.open("ul");
  for (const auto& line : lines) out.element("li", {}, line);
  out.close();
}

void steps_section(Markup& out, const LlmPlan& plan, const LlmNotes& notes) {
  if (plan.steps.empty()) return;
  out.element("h2", {}, "Whole steps");
  paragraph(out, std::string(kStepsTitle) + ".");
  plot(out, savings_chart(plan));
  legend(out, {{"lineone", "all-reduce"}, {"linetwo", "sequence parallel"}});
  legend(out, {{"bandone", "90 % interval"}, {"bandtwo", "90 % interval"}});
  html_table(out, step_cells(plan));
  list(out, notes.steps);
  list(out, notes.all);
}

void ranges_section(Markup& out, const LlmSite& site) {
  if (!site.ranges) return;
  out.element("h3", {}, site.layer.layer + ": " + site.op->text());
  html_table(out, render::range_cells(*site.ranges));
  paragraph(out, render::range_settings_text(*site.ranges));
  for (const auto& gap : site.ranges->gaps)
    paragraph(out, "no plan for m of " + render::m_text(gap.first_m, gap.last_m) + ": " + gap.reason);
}

} // namespace

std::string model_html(const LlmPlan& plan) {
  const LlmNotes notes = model_notes(plan);
  Markup out = html_report(model_title(plan), plan.fingerprint);
  paragraph(out, model_facts(plan));
  out.element("h2", {}, "Layers");
  html_table(out, layer_cells(plan));
  list(out, notes.layers);
  steps_section(out, plan, notes);
  out.element("h2", {}, "The plans of all m");
  for (const LlmSite& site : plan.sites) ranges_section(out, site);
  return html_text(std::move(out));
}

} // namespace mc2::cli
