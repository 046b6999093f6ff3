#include "pages/explain_html.hpp"

#include <algorithm>
#include <utility>

#include "mc2/planner/text.hpp"
#include "mc2/render/answer.hpp"
#include "mc2/render/timeline_chart.hpp"
#include "pages/explain_charts.hpp"
#include "pages/explain_page.hpp"
#include "pages/html.hpp"
#include "pages/render.hpp"

namespace mc2::cli {
namespace {

using planner::Explanation;
using render::clipped;
using render::Markup;

void cards(Markup& out, const Explanation& explanation, const Evidence& evidence) {
  const planner::Plan& plan = explanation.plan;
  out.open("div", {{"class", "cards"}});
  card(out, "predicted", time_text(plan.makespan.us),
       time_interval_text(plan.makespan.low_us, plan.makespan.high_us) + ", " +
           std::string(to_string(plan.makespan.provenance)));
  card(out, plan.validation ? "predicted benefit" : "benefit over serial", percent_text(plan.benefit()),
       "serial " + time_text(plan.serial_us));
  if (plan.validation)
    card(out, "measured", time_text(plan.validation->fused_us), "benefit " + percent_text(plan.validation->benefit));
  else if (evidence.measurement)
    card(out, "measured", time_text(evidence.measurement->fused_us),
         "benefit " + percent_text(evidence.measurement->benefit));
  card(out, "bound by", std::string(to_string(plan.bound)), "ideal " + time_text(plan.ideal_us));
  card(out, "exposed head", time_text(explanation.use.second.before_us),
       "tail " + time_text(explanation.use.first.after_us));
  out.close();
}

void timeline_section(Markup& out, const Explanation& explanation) {
  out.element("h2", {}, "Timeline");
  paragraph(out, explanation.bound_text + ".");
  plot(out, render::timeline_chart(explanation));
  legend(out, {{"compute", "compute"}, {"communication", "communication"}, {"exposed", "exposed: one lane only"}});
  if (!explanation.measured)
    paragraph(out,
              "No measured timeline: stages of earlier runs are not kept. mc2 explain --measure runs the plan and "
              "draws it here.");
  html_table(out, lane_cells(explanation));
  out.element("h2", {}, "Where the makespan goes");
  plot(out, account_chart(explanation));
}

std::string curve_facts(const CurveEvidence& e) {
  const auto& curve = e.cost.curve;
  if (curve.is_analytic) return "From published constants, not from measurements: no samples and no interval.";
  return std::to_string(curve.quality.point_count) + " sizes; residual rms " +
         percent_text(curve.quality.relative_rms, 2) + ", worst " + percent_text(curve.quality.relative_worst, 2) +
         ", cross-validated " + percent_text(curve.quality.cross_validated_rms, 2) + "; 90 % interval +-" +
         percent_text(curve.relative_interval, 2) + "; slow-down " + number(e.cost.slowdown, "%.3f") +
         " while the other lane is busy; " + time_text(e.cost.fixed_us) + " fixed per block.";
}

void curve_section(Markup& out, const CurveEvidence& e) {
  const auto& curve = e.cost.curve;
  out.element(
      "h3", {},
      std::string(to_string(e.lane)) + ": " + std::string(curve.family()) + ", " + clipped(curve.formula_text(), 200));
  paragraph(out, clipped(curve.quality.reason, 400));
  plot(out, curve_chart(e));
  if (!e.samples.empty())
    legend(out, {{"alone", "sample, alone"}, {"corun", "sample, other lane busy"}, {"outlier", "outlier, not fitted"}});
  legend(out, {{"fit", "fit"},
               {"slowed", "fit, other lane busy"},
               {"band", "90 % interval"},
               {"outside", "outside the valid range"},
               {"blocksize", "blocks of this plan"}});
  paragraph(out, curve_facts(e));
}

void curves_section(Markup& out, const std::vector<CurveEvidence>& curves) {
  if (curves.empty()) return;
  out.element("h2", {}, "Curve fits");
  const bool has_samples = std::any_of(curves.begin(), curves.end(), [](const auto& e) { return !e.samples.empty(); });
  paragraph(out,
            has_samples
                ? "Each sample is divided by the drift factor of its round, as the fit does. Residuals of samples that "
                  "were taken while the other lane was busy are relative to the slowed curve."
                : "No samples: only the fitted curves can be drawn.");
  for (const auto& each : curves) curve_section(out, each);
}

void losers_section(Markup& out, const Explanation& explanation) {
  if (explanation.losses.empty()) return;
  out.element("h2", {}, "Runners-up");
  plot(out, loss_chart(explanation));
  html_table(out, loss_cells(explanation));
}

bool has_flip(const planner::Sensitivity& sensitivity) {
  return std::ranges::any_of(sensitivity.parameters,
                             [](const auto& p) { return !p.lower.flips.empty() || !p.higher.flips.empty(); });
}

void sensitivity_section(Markup& out, const Explanation& explanation) {
  if (!explanation.sensitivity) return;
  const auto& sensitivity = *explanation.sensitivity;
  out.element("h2", {}, "What would change the decision");
  for (const auto& text : {other_choice_text(sensitivity), doubt_text(sensitivity), comparison_text(sensitivity)})
    paragraph(out, text);
  if (!sensitivity.is_as_good()) paragraph(out, "no range is marked as good, as this plan already loses 1 % or more");
  plot(out, sensitivity_chart(sensitivity));
  if (sensitivity.is_as_good()) legend(out, {{"near", kNearText}});
  legend(out, {{"tried", "tried"}, {"today", "today"}});
  if (has_flip(sensitivity)) legend(out, {{"change", "from here on another plan is best"}});
  html_table(out, sensitivity_cells(sensitivity));
}

void recipe_section(Markup& out, const planner::Plan& plan) {
  if (plan.recipe.empty()) return;
  Cells cells{{"step", "value", "unit", ""}};
  constexpr std::size_t kMaxSteps = 50;
  for (std::size_t i = 0; i < std::min(plan.recipe.size(), kMaxSteps); ++i) {
    const auto& step = plan.recipe[i];
    cells.push_back(
        {clipped(step.name, 40), number_text(step.value, 6), clipped(step.unit, 20), clipped(step.text, 300)});
  }
  out.element("h2", {}, "The recipe's steps");
  html_table(out, cells);
}

void notes_section(Markup& out, const Explanation& explanation, const Evidence& evidence) {
  if (explanation.plan.certificate) {
    out.element("h2", {}, "Certificate");
    paragraph(out, clipped(explanation.plan.certificate->text, 400));
  }
  const auto notes = all_notes(explanation, evidence);
  if (notes.empty()) return;
  out.element("h2", {}, "Notes").open("ul");
  for (const auto& note : notes) out.element("li", {}, note);
  out.close();
}

} // namespace

std::string explain_html(const Explanation& explanation, const Evidence& evidence) {
  const planner::Plan& plan = explanation.plan;
  Markup out = html_report(render::question_text(plan), plan.fingerprint);
  cards(out, explanation, evidence);
  facts_table(out, summary_facts(explanation, evidence));
  timeline_section(out, explanation);
  losers_section(out, explanation);
  sensitivity_section(out, explanation);
  curves_section(out, curve_evidence(plan, evidence));
  recipe_section(out, plan);
  notes_section(out, explanation, evidence);
  return html_text(std::move(out));
}

} // namespace mc2::cli
