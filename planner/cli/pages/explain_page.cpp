#include "pages/explain_page.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "mc2/planner/text.hpp"
#include "mc2/render/answer.hpp"
#include "mc2/render/markup.hpp"
#include "mc2/render/plan_page.hpp"
#include "mc2/render/text.hpp"
#include "pages/render.hpp"
#include "pages/text.hpp"

namespace mc2::cli {
namespace {

using planner::Account;
using planner::Excursion;
using planner::Explanation;
using planner::Flip;
using planner::FlipKind;
using planner::Parameter;
using planner::ParameterSensitivity;
using planner::Sensitivity;
using render::clipped;

constexpr std::size_t kMaxText = 300, kMaxCutText = 60, kMaxVariantText = 64, kMaxShownLosers = 20, kMaxNotes = 20;

std::string short_cut(const planner::Cut& cut) {
  // A free list of blocks can be so long that its text would be clipped.
  if (cut.block_rows.size() > kMaxCutText && cut.order() == planner::BlockOrder::Free)
    return std::to_string(cut.block_rows.size()) + " blocks of different lengths";
  return clipped(cut.text(), kMaxCutText);
}

std::string short_variant(const planner::Variant& variant) { return clipped(variant.text(), kMaxVariantText); }

std::string share_text(double us, double makespan_us) {
  return time_text(us) + (makespan_us > 0 ? " (" + percent_text(us / makespan_us) + ")" : "");
}

std::string value_text(const ParameterSensitivity& p, double value, int digits) {
  if (p.unit == "us") return time_text(value);
  if (p.unit == "rows" || p.unit == "columns") return std::to_string(static_cast<std::int64_t>(value));
  return "x" + number_text(value, digits);
}

/// A parameter's value for people, with enough digits to differ from today's value.
std::string value_text(const ParameterSensitivity& p, double value) {
  for (int digits = 3; digits < 6; ++digits)
    if (value == p.value || value_text(p, value, digits) != value_text(p, p.value, digits))
      return value_text(p, value, digits);
  return value_text(p, value, 6);
}

/// The text of a flip. A flip that keeps the present cut changes only the variant.
std::string flip_text(const ParameterSensitivity& p, const Flip& flip, const Sensitivity& today) {
  const std::size_t count = flip.cut.block_rows.size();
  const std::string decision = count == 1 ? "uncut" : short_cut(flip.cut);
  const std::string text = value_text(p, flip.value) + ": " + decision;
  if (!has_same_blocks(flip.cut, today.best_cut)) return text;
  const std::array variants{today.best_variant, flip.variant};
  return text + ", " + clipped(render::variant_names(variants).names.back(), kMaxVariantText);
}

std::string excursion_text(const ParameterSensitivity& p, const Excursion& e, const Sensitivity& today) {
  if (e.end_value == p.value) return "-";
  if (e.flips.empty()) return "never (to " + value_text(p, e.end_value) + ")";
  const Flip& nearest = e.flips.front();
  std::string text = flip_text(p, nearest, today);
  const auto stronger = std::find_if(e.flips.begin(), e.flips.end(),
                                     [](const Flip& flip) { return flip.kind != FlipKind::OtherLengths; });
  if (stronger != e.flips.end() && stronger != e.flips.begin()) text += "; " + flip_text(p, *stronger, today);
  if (e.flips.back().kind == FlipKind::CutOrUncut && stronger != std::prev(e.flips.end()))
    text += "; " + flip_text(p, e.flips.back(), today);
  return text;
}

std::string loss_text(const ParameterSensitivity& p) {
  std::vector<std::string> values;
  for (const Excursion* e : {&p.lower, &p.higher})
    if (e->one_percent_value) values.push_back(value_text(p, *e->one_percent_value));
  return values.empty() ? "-" : list_text(values);
}

std::string heading(const char* text, bool color) {
  return color ? std::string("\n\033[1m") + text + "\033[0m\n" : std::string("\n") + text + "\n";
}

std::string account_text(const Explanation& explanation) {
  Cells cells{{"part of the makespan", ""}};
  for (const auto& [name, us, text] : account_parts(explanation.account)) cells.push_back({name, text});
  cells.push_back({"= makespan", time_text(explanation.plan.timeline.makespan_us)});
  return table(cells);
}

/// The measured time of the fused operator, if it was raced.
std::optional<double> measured_us(const planner::Plan& plan, const Evidence& evidence) {
  if (plan.validation) return plan.validation->fused_us;
  if (evidence.measurement) return evidence.measurement->fused_us;
  return std::nullopt;
}

std::string title_text(const planner::Plan& plan, int width, bool color) {
  return heading(render::question_text(plan).c_str(), color).substr(1) +
         render::hanging("", clipped(plan.fingerprint.label(), kMaxText), width) + "\n";
}

/// The predicted timeline, and above it the measured one if there is one.
std::string timelines_text(const Explanation& explanation, int width, bool color) {
  const auto drawn = [&](const planner::Timeline& timeline) {
    return draw_timeline(timeline, planner::traits_of(explanation.plan.op.kind).first_lane, width, color);
  };
  const std::string predicted = drawn(explanation.plan.timeline);
  if (!explanation.measured) return predicted;
  return "  measured, slowest rank\n" + drawn(explanation.measured->timeline) + "  predicted\n" + predicted;
}

/// The facts that the short page shows.
constexpr std::array<std::string_view, 6> kFewFacts{"cut", "predicted", "provenance", "measured", "serial", "why"};
constexpr std::size_t kFewLosers = 4, kFewNotes = 2, kFewFactLines = 4;
constexpr int kFewFactColumns = 12; ///< width of the column of names

/// "0.74 to 2 or more": the speeds, relative to today's, between which the plan costs less than 1 % more than the best
/// plan.
std::string speed_range_text(const ParameterSensitivity& p) {
  const auto speed = [&](const Excursion& excursion) {
    return p.value / excursion.one_percent_value.value_or(excursion.end_value);
  };
  return number_text(speed(p.higher), 3) + (p.higher.one_percent_value ? "" : " or less") + " to " +
         number_text(speed(p.lower), 3) + (p.lower.one_percent_value ? "" : " or more");
}

std::string few_losers_text(const Explanation& explanation, int width) {
  std::string text;
  const std::size_t count = std::min({explanation.losses.size(), explanation.plan.runners_up.size(), kFewLosers});
  const auto variants = render::runner_up_names(explanation.plan);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& loser = explanation.plan.runners_up[i];
    const std::string name = short_cut(loser.cut) + ", " + clipped(variants[i], kMaxVariantText);
    text += "  " + clipped(name + ": " + clipped(loser.reason, kMaxText), static_cast<std::size_t>(width) - 6) + "\n";
  }
  return text;
}

} // namespace

bool has_same_blocks(const planner::Cut& a, const planner::Cut& b) {
  return a == b || (a.block_rows.size() == 1 && b.block_rows.size() == 1);
}

double lost_us(const planner::Loss& loss) noexcept {
  return loss.difference ? loss.difference->sum_us() : loss.lost_us;
}

std::string parameter_text(Parameter parameter) {
  switch (parameter) {
    case Parameter::ComputeTime: return "compute time";
    case Parameter::CommunicationTime: return "communication time";
    case Parameter::CommunicationLatency: return "latency of a message";
    case Parameter::ComputeSlowdown: return "compute slow-down";
    case Parameter::CommunicationSlowdown: return "communication slow-down";
    case Parameter::ComputeBlockFixed: return "fixed cost, compute";
    case Parameter::CommunicationBlockFixed: return "fixed cost, communication";
    case Parameter::Rows: return "rows (m)";
    case Parameter::Columns: return "columns (n)";
    case Parameter::Imbalance: return "imbalance of rows";
  }
  return "";
}

std::string signed_time(double us) {
  if (std::abs(us) < 0.05) return "0";
  return (us < 0 ? "-" : "+") + time_text(std::abs(us));
}

std::array<AccountPart, 6> account_parts(const Account& a) {
  const auto added = [](const std::string& name, double us) { return AccountPart{name, us, signed_time(us)}; };
  return {{{std::string(to_string(a.lane)) + ", uncut", a.uncut_us, time_text(a.uncut_us)},
           added("cutting it", a.cutting_us),
           added("slowed by " + std::string(to_string(other(a.lane))), a.contention_us),
           added("waits at the start", a.before_us),
           added("waits between blocks", a.between_us),
           added("waits at the end", a.after_us)}};
}

Facts summary_facts(const Explanation& explanation, const Evidence& evidence) {
  planner::Plan plan = explanation.plan;
  if (const auto& m = evidence.measurement; m && m->serial_us > 0 && !plan.validation)
    plan.validation = {m->fused_us, m->serial_us, m->benefit, m->benefit_low, m->benefit_high, m->run_count};
  Facts facts = render::plan_facts(plan);
  // Both texts are clipped, so that neither many blocks nor a variant's many fields hide the other.
  facts.front().second = short_cut(plan.cut) + (plan.is_cut() ? " " + planner::cut_axis_text(plan.op) : "") +
                         ", variant " + short_variant(plan.variant);
  if (!plan.validation) facts.emplace_back("measured", "not raced; mc2 tune races it, and mc2 run times this plan");
  const double makespan_us = plan.timeline.makespan_us;
  facts.emplace_back("head exposed", share_text(explanation.use.second.before_us, makespan_us));
  facts.emplace_back("tail exposed", share_text(explanation.use.first.after_us, makespan_us));
  facts.emplace_back("plan", evidence.digest.substr(0, 12) + ", strategy " + plan.strategy +
                                 (evidence.kept_at.empty() ? "" : ", kept " + evidence.kept_at));
  for (auto& [name, text] : facts) text = clipped(text, kMaxText);
  return facts;
}

Cells lane_cells(const Explanation& explanation) {
  const planner::Lane first = planner::traits_of(explanation.plan.op.kind).first_lane;
  Cells cells{{"lane", "", "busy", "idle before", "idle between", "idle after"}};
  const auto add = [&](const char* source, const planner::TimelineUse& use, double makespan_us) {
    for (const auto& [lane, u] : {std::pair{first, &use.first}, std::pair{other(first), &use.second}})
      cells.push_back({std::string(to_string(lane)), source, share_text(u->busy_us, makespan_us),
                       share_text(u->before_us, makespan_us), share_text(u->between_us, makespan_us),
                       share_text(u->after_us, makespan_us)});
  };
  add("predicted", explanation.use, explanation.plan.timeline.makespan_us);
  if (explanation.measured) add("measured", explanation.measured->use, explanation.measured->timeline.makespan_us);
  return cells;
}

/// The parts of a runner-up's loss, without those that are 0. Their sum is the loss.
std::string parts_text(const Account& difference) {
  std::vector<std::string> parts;
  for (const auto& [name, us] : {std::pair{"cutting", difference.cutting_us},
                                 {"contention", difference.contention_us},
                                 {"waits", difference.waits_us()}})
    if (us != 0) parts.push_back(std::string(name) + " " + signed_time(us));
  return list_text(parts);
}

Cells loss_cells(const Explanation& explanation) {
  const planner::Plan& plan = explanation.plan;
  Cells cells{{"runner-up", "variant", "predicted", "slower by", "made up of", "reason"}};
  const std::size_t count = std::min({explanation.losses.size(), plan.runners_up.size(), kMaxShownLosers});
  const auto variants = render::runner_up_names(plan);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& loser = plan.runners_up[i];
    const auto& loss = explanation.losses[i];
    cells.push_back({short_cut(loser.cut), clipped(variants[i], kMaxVariantText), time_text(loser.makespan_us),
                     signed_time(lost_us(loss)), loss.difference ? parts_text(*loss.difference) : "?",
                     clipped(loser.reason, kMaxText)});
  }
  return cells;
}

Cells sensitivity_cells(const Sensitivity& sensitivity) {
  Cells cells{{"parameter", "today", "lower: other decision at", "higher: other decision at", "costs 1 % at"}};
  for (const auto& p : sensitivity.parameters)
    cells.push_back({parameter_text(p.parameter), value_text(p, p.value), excursion_text(p, p.lower, sensitivity),
                     excursion_text(p, p.higher, sensitivity), sensitivity.is_as_good() ? loss_text(p) : "today"});
  return cells;
}

std::string doubt_text(const Sensitivity& sensitivity) {
  std::vector<std::string> doubts;
  for (const auto& p : sensitivity.parameters)
    for (const Excursion* e : {&p.lower, &p.higher}) {
      if (p.relative_interval == 0 || e->flips.empty() || std::abs(e->flips.front().value - 1) > p.relative_interval)
        continue;
      doubts.push_back(parameter_text(p.parameter) + " " + flip_text(p, e->flips.front(), sensitivity));
    }
  if (doubts.empty()) return {};
  return "within the curves' own 90 % interval, another decision can be best: " + list_text(doubts, "; ");
}

std::string other_choice_text(const Sensitivity& sensitivity) {
  if (sensitivity.is_best()) return {};
  return "by the model as it is, " + short_cut(sensitivity.best_cut) + " with " +
         short_variant(sensitivity.best_variant) + " would be faster: " + time_text(sensitivity.best_us) +
         ", this plan " + time_text(sensitivity.kept_us) + " (" + percent_text(sensitivity.loss(), 2) + " more)";
}

std::string comparison_text(const Sensitivity& sensitivity) {
  return sensitivity.is_best() ? "" : "decisions below are compared with that choice, losses with this plan";
}

std::vector<std::string> all_notes(const Explanation& explanation, const Evidence& evidence) {
  std::vector<std::string> notes = explanation.notes;
  if (const auto fused_us = measured_us(explanation.plan, evidence))
    if (auto note = render::outside_note(explanation.plan, *fused_us); !note.empty()) notes.push_back(std::move(note));
  notes.insert(notes.end(), evidence.notes.begin(), evidence.notes.end());
  if (std::ssize(explanation.plan.runners_up) > static_cast<std::ptrdiff_t>(kMaxShownLosers))
    notes.push_back("the first " + std::to_string(kMaxShownLosers) + " of " +
                    std::to_string(explanation.plan.runners_up.size()) + " runners-up are shown");
  if (notes.size() > kMaxNotes) notes.resize(kMaxNotes);
  for (auto& note : notes) note = clipped(note, 2 * kMaxText);
  return notes;
}

std::string robustness_text(const Sensitivity& sensitivity) {
  if (!sensitivity.is_as_good()) return {};
  const auto range = [&](Parameter wanted) {
    const auto p = std::ranges::find(sensitivity.parameters, wanted, &ParameterSensitivity::parameter);
    return p == sensitivity.parameters.end() ? std::string() : speed_range_text(*p);
  };
  const std::string compute = range(Parameter::ComputeTime), link = range(Parameter::CommunicationTime);
  if (compute.empty() || link.empty()) return {};
  return "It stays within 1 % of the best plan while compute is " + compute +
         " times as fast as here. The same holds while the link is " + link + " times as fast.";
}

/// What unequal counts of rows would change; empty for kinds that have none.
std::string skew_text(const Sensitivity& sensitivity) {
  const auto found = std::ranges::find(sensitivity.parameters, Parameter::Imbalance, &ParameterSensitivity::parameter);
  if (found == sensitivity.parameters.end()) return {};
  const auto& [end, flips, one_percent, loss] = found->higher;
  std::string text;
  for (const auto& flip : flips)
    text += (text.empty() ? "With unequal numbers of rows on the ranks, from an imbalance of " : "; of ") +
            number_text(flip.value, 3) + " on, " + flip.text.substr(flip.text.find(": ") + 2);
  return text.empty() ? "Unequal numbers of rows change nothing, up to an imbalance of " + number_text(end, 3) + "."
                      : text + ".";
}

std::string explain_page(const Explanation& explanation, const Evidence& evidence, int width, bool color) {
  const planner::Plan& plan = explanation.plan;
  std::string page = title_text(plan, width, color);
  for (const auto& [name, value] : summary_facts(explanation, evidence))
    if (std::ranges::find(kFewFacts, name) != kFewFacts.end())
      page += render::fact_line(name, value, width, kFewFactColumns, kFewFactLines);
  page += heading("What bounds it", color) + remark(explanation.bound_text, width) + "\n" +
          timelines_text(explanation, width, color);
  if (explanation.sensitivity) {
    page += heading("What would change it", color);
    const Sensitivity& sensitivity = *explanation.sensitivity;
    for (const auto& text : {other_choice_text(sensitivity), robustness_text(sensitivity), skew_text(sensitivity)})
      if (!text.empty()) page += remark(text, width);
  }
  if (!explanation.losses.empty()) page += heading("Runners-up", color) + few_losers_text(explanation, width);
  auto notes = all_notes(explanation, evidence);
  if (notes.size() > kFewNotes) notes.resize(kFewNotes);
  if (!notes.empty()) page += heading("Notes", color);
  for (const auto& note : notes) page += remark(clipped(note, 2 * static_cast<std::size_t>(width) - 10), width);
  page += "\n" + remark("--all shows every table: lanes, parts of the time, runners-up, each parameter", width);
  return page;
}

std::string full_explain_page(const Explanation& explanation, const Evidence& evidence, int width, bool color) {
  const planner::Plan& plan = explanation.plan;
  std::string page = title_text(plan, width, color);
  for (const auto& [name, value] : summary_facts(explanation, evidence)) page += render::fact_line(name, value, width);
  page += heading("What bounds it", color) + remark(explanation.bound_text, width) + "\n";
  page += table(lane_cells(explanation)) + "\n" + account_text(explanation) + "\n";
  page += timelines_text(explanation, width, color);
  if (!explanation.losses.empty())
    page += heading("Runners-up, against this plan", color) + table(loss_cells(explanation));
  if (explanation.sensitivity) {
    page += heading("What would change the decision", color);
    const Sensitivity& sensitivity = *explanation.sensitivity;
    for (const auto& text : {other_choice_text(sensitivity), robustness_text(sensitivity), doubt_text(sensitivity),
                             comparison_text(sensitivity)})
      if (!text.empty()) page += remark(text, width);
    page += table(sensitivity_cells(sensitivity));
  }
  if (plan.certificate) page += heading("Certificate", color) + "  " + clipped(plan.certificate->text, kMaxText) + "\n";
  const auto notes = all_notes(explanation, evidence);
  if (!notes.empty()) page += heading("Notes", color);
  for (const auto& note : notes) page += remark(note, width);
  return page;
}

} // namespace mc2::cli
