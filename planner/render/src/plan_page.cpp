#include "mc2/render/plan_page.hpp"

#include <algorithm>
#include <cmath>

#include "mc2/planner/text.hpp"
#include "mc2/render/answer.hpp"
#include "mc2/render/text.hpp"

namespace mc2::render {
namespace {

constexpr const char* kComputeColors[] = {"\033[48;5;25m\033[97m", "\033[48;5;32m\033[97m"};
constexpr const char* kCommunicationColors[] = {"\033[48;5;130m\033[97m", "\033[48;5;172m\033[97m"};
constexpr const char* kReset = "\033[0m";

/// The columns that one block takes, from its start to its end; at least one.
struct Cells {
  int first, count;
};

Cells cells_of(const planner::Span& span, double us_per_cell, int width) {
  const int first = std::min(width - 1, static_cast<int>(std::lround(span.start_us / us_per_cell)));
  const int last = std::min(width, static_cast<int>(std::lround(span.end_us / us_per_cell)));
  return {first, std::max(1, last - first)};
}

std::string block_text(int index, int count, bool color) {
  const std::string number = std::to_string(index + 1);
  const char fill = color ? ' ' : (index % 2 == 0 ? '#' : '=');
  std::string text(static_cast<std::size_t>(count), fill);
  if (count >= static_cast<int>(number.size()) + 2)
    text.replace((text.size() - number.size()) / 2, number.size(), number);
  return text;
}

std::string draw_lane(const std::vector<planner::Span>& blocks, planner::Lane lane, double us_per_cell, int width,
                      bool color) {
  const auto& colors = lane == planner::Lane::Compute ? kComputeColors : kCommunicationColors;
  std::string line;
  int column = 0;
  for (int i = 0; i < static_cast<int>(blocks.size()); ++i) {
    Cells cells = cells_of(blocks[static_cast<std::size_t>(i)], us_per_cell, width);
    // Rounding must not let a block cover the one before it.
    const int hidden = std::max(0, column - cells.first);
    if (hidden >= cells.count) continue;
    cells = {cells.first + hidden, cells.count - hidden};
    line.append(static_cast<std::size_t>(cells.first - column), color ? ' ' : '.');
    const std::string text = block_text(i, cells.count, color);
    line += color ? colors[i % 2] + text + kReset : text;
    column = cells.first + cells.count;
  }
  return line;
}

std::string axis(double makespan_us, int width) {
  const std::string end = time_text(makespan_us);
  std::string line = "0";
  line.append(static_cast<std::size_t>(std::max(1, width - 1 - static_cast<int>(end.size()))), ' ');
  return line + end;
}

std::string bold(const std::string& text, bool color) { return color ? "\033[1m" + text + kReset : text; }

std::string benefit_interval_text(const planner::Plan& plan) {
  if (!plan.benefit_interval || !plan.overlaps()) return {};
  return " (90 % interval " + percent_interval_text(plan.benefit_interval->low, plan.benefit_interval->high) + ")";
}

/// What a race measured, in one line. @param overlaps  whether the plan is anything but serial
std::string measured_text(const planner::Validation& v, bool overlaps) {
  const auto measured = [&](double us, double low_us, double high_us) {
    return time_text(us) + (v.spread ? " (" + time_interval_text(low_us, high_us) + ")" : "");
  };
  const planner::MeasuredSpread spread = v.spread.value_or(planner::MeasuredSpread{});
  const std::string serial = measured(v.serial_us, spread.serial_low_us, spread.serial_high_us) + " serial";
  const std::string when =
      (v.spread ? "; serial's runs differed by a factor of " + number_text(spread.speed_range) : std::string()) +
      (v.measured_at.empty() ? "" : "; " + v.measured_at);
  if (!overlaps) return serial + ", " + std::to_string(v.pair_count) + " rounds" + when;
  return measured(v.fused_us, spread.fused_low_us, spread.fused_high_us) + " fused, " + serial + ": benefit " +
         percent_text(v.benefit) + " (" + percent_interval_text(v.benefit_low, v.benefit_high) + "); 95 % intervals, " +
         std::to_string(v.pair_count) + " pairs" + when + ratio_note(v);
}

std::string recipe_table(const planner::Plan& plan, int width) {
  std::vector<std::vector<std::string>> rows{{"step", "value", "", ""}};
  for (const auto& step : plan.recipe) rows.push_back({step.name, number_text(step.value, 6), step.unit, step.text});
  return table(rows, width);
}

std::string lane_row(const planner::LaneCost& lane) {
  return "slow-down " + number(lane.slowdown, "%.3f, ") + number(lane.fixed_us, "%.1f us fixed per block");
}

std::string curve_fields(const char* name, const planner::LaneCost& lane, int width) {
  const auto& quality = lane.curve.quality;
  const std::string residual =
      std::to_string(quality.point_count) + " sizes, residual rms " + percent_text(quality.relative_rms, 2) +
      " worst " + percent_text(quality.relative_worst, 2) + ", cross-validated " +
      percent_text(quality.cross_validated_rms, 2) + ", interval +-" + percent_text(lane.curve.relative_interval, 2);
  return fact_line(name, std::string(lane.curve.family()) + ": " + lane.curve.formula_text(), width) +
         fact_line("", residual, width) + fact_line("", quality.reason, width) + fact_line("", lane_row(lane), width);
}

} // namespace

std::string draw_timeline(const planner::Timeline& timeline, planner::Lane first_lane, int width, bool color) {
  const int cells = std::max(20, width - kNameColumns - 3);
  const double us_per_cell = std::max(timeline.makespan_us, 1e-9) / cells;
  const auto line = [&](planner::Lane lane, const std::vector<planner::Span>& blocks) {
    return "  " + padded(std::string(to_string(lane)), kNameColumns) +
           draw_lane(blocks, lane, us_per_cell, cells, color) + "\n";
  };
  return line(first_lane, timeline.first) + line(other(first_lane), timeline.second) + "  " + padded("", kNameColumns) +
         axis(timeline.makespan_us, cells) + "\n";
}

std::vector<std::string> runner_up_names(const planner::Plan& plan) {
  std::vector<planner::Variant> variants;
  for (const auto& loser : plan.runners_up) variants.push_back(loser.variant);
  variants.push_back(plan.variant);
  auto names = variant_names(variants).names;
  names.pop_back();
  return names;
}

std::string runner_up_table(const planner::Plan& plan, int width) {
  std::vector<std::vector<std::string>> rows{{"runner-up", "variant", "predicted", "why it lost"}};
  const auto names = runner_up_names(plan);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& loser = plan.runners_up[i];
    rows.push_back(
        {loser.cut.text(), names[i], loser.makespan_us > 0 ? time_text(loser.makespan_us) : "-", loser.reason});
  }
  return table(rows, width);
}

std::string outside_note(const planner::Plan& plan, double measured_us) {
  const planner::Estimate& predicted = plan.makespan;
  if (!(predicted.us > 0) || (measured_us >= predicted.low_us && measured_us <= predicted.high_us)) return {};
  return "measured, " + time_text(measured_us) + ", lies outside the predicted 90 % interval, " +
         time_interval_text(predicted.low_us, predicted.high_us);
}

std::vector<std::pair<std::string, std::string>> plan_facts(const planner::Plan& plan) {
  const planner::Estimate& makespan = plan.makespan;
  const bool is_predicted = makespan.us > 0;
  std::vector<std::pair<std::string, std::string>> facts{
      {"cut", plan.cut.text() + (plan.is_cut() ? " " + planner::cut_axis_text(plan.op) : "") + ", variant " +
                  plan.variant.text()}};
  const auto add = [&](const char* name, const std::string& text) { facts.emplace_back(name, text); };
  if (is_predicted) {
    add("predicted",
        time_text(makespan.us) + " (90 % interval " + time_interval_text(makespan.low_us, makespan.high_us) + ")");
    add("provenance", std::string(to_string(makespan.provenance)) + ": " + makespan.reason);
  } else {
    add("predicted", "nothing: " + (makespan.reason.empty() ? "no model" : makespan.reason));
  }
  if (plan.validation) add("measured", measured_text(*plan.validation, plan.overlaps()));
  if (is_predicted) {
    add("serial", time_text(plan.serial_us) + " = " + std::string(to_string(planner::traits_of(plan.op.kind).work)) +
                      " " + time_text(plan.compute_us) + " + collective " + time_text(plan.communication_us));
    add("ideal", time_text(plan.ideal_us) + " (serial's longer part)");
    add("benefit", percent_text(plan.benefit()) + (plan.validation ? " predicted" : "") + benefit_interval_text(plan) +
                       ", overlap efficiency " + efficiency_text(plan.overlap_efficiency()));
    add("bound", std::string(to_string(plan.bound)));
  }
  add("why", plan.reason);
  return facts;
}

std::string plan_page(const planner::Plan& plan, int width, bool color) {
  std::string page = bold(question_text(plan), color) + "\n" + hanging("", plan.fingerprint.label(), width) + "\n";
  for (const auto& [name, text] : plan_facts(plan)) page += fact_line(name, text, width);
  if (plan.validation)
    if (const std::string note = outside_note(plan, plan.validation->fused_us); !note.empty())
      page += fact_line("note", note, width);
  page += "\n";
  if (plan.has_timeline())
    page += draw_timeline(plan.timeline, planner::traits_of(plan.op.kind).first_lane, width, color) + "\n";
  if (!plan.recipe.empty()) page += recipe_table(plan, width) + "\n";
  if (!plan.runners_up.empty()) page += runner_up_table(plan, width) + "\n";
  if (plan.certificate) page += hanging("  ", plan.certificate->text, width);
  return page;
}

std::string model_page(const planner::CostModel& model, int width) {
  std::string page = model.op.text() + "\n" + hanging("", model.fingerprint.label(), width) + "\n";
  const bool is_matmul = planner::traits_of(model.op.kind).work != planner::Work::Pooling;
  for (const auto& variant : model.variants) {
    page += "  variant " + variant.variant.text() + "\n";
    page += curve_fields(is_matmul ? "CostMM" : "CostPool", variant.compute, width) +
            curve_fields("CostComm", variant.communication, width);
    if (variant.overhead_us() > 0)
      page += fact_line("a run",
                        time_text(variant.overhead_us()) + " besides its blocks" +
                            (variant.run_us > 0 ? ", where the lanes overlap" : ""),
                        width);
  }
  return page;
}

} // namespace mc2::render
