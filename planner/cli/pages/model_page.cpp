#include "pages/model_page.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "mc2/planner/text.hpp"
#include "mc2/render/ranges.hpp"
#include "mc2/render/text.hpp"
#include "mc2/store/csv.hpp"
#include "pages/text.hpp"

namespace mc2::cli {
namespace {

using planner::LlmForm;
using planner::LlmPlan;
using planner::LlmRun;
using planner::LlmSite;
using planner::LlmStep;
using planner::PlanRange;
using planner::Provenance;

using Lines = std::vector<std::string>;

constexpr std::size_t kMostParts = 3; ///< most runs of m that a line names

/// The runs with the most m, of equals those with the fewest tokens, in ascending order.
std::vector<LlmRun> widest(std::vector<LlmRun> runs) {
  std::ranges::stable_sort(runs, std::greater(), [](const LlmRun& run) { return run.last_tokens - run.first_tokens; });
  runs.resize(std::min(runs.size(), kMostParts));
  std::ranges::sort(runs, {}, &LlmRun::first_tokens);
  return runs;
}

std::string runs_text(const std::vector<LlmRun>& runs) {
  return list_text(widest(runs), [](const LlmRun& run) { return render::m_text(run.first_tokens, run.last_tokens); }) +
         (runs.size() > kMostParts ? ", ..." : "");
}

/// The tokens of a step that have a plan. Runs that touch are merged.
std::vector<LlmRun> planned_runs(const LlmPlan& plan, const LlmSite& site) {
  std::vector<LlmRun> runs;
  for (const PlanRange& range : site.ranges->ranges) {
    const LlmRun run = planner::tokens_of(site, range, plan.first_tokens, plan.last_tokens);
    if (runs.empty() || run.first_tokens > runs.back().last_tokens + 1)
      runs.push_back(run);
    else
      runs.back().last_tokens = run.last_tokens;
  }
  return runs;
}

/// Where to fuse. Where nothing is to be fused but not all m have a plan, that is unknown but for the planned m.
std::string fused_text(const LlmPlan& plan, const LlmSite& site) {
  if (!site.fused.empty()) return runs_text(site.fused);
  if (site.ranges->gaps.empty()) return "nowhere";
  return "not at " + runs_text(planned_runs(plan, site)) + "; else unknown";
}

std::string gain_text(const std::vector<LlmRun>& runs) {
  if (runs.empty()) return "-";
  const auto least = std::ranges::min(runs, {}, &LlmRun::least_benefit).least_benefit;
  const auto most = std::ranges::max(runs, {}, &LlmRun::most_benefit).most_benefit;
  return render::span_text(least, most);
}

std::string size_text(const LlmSite& site) { return std::to_string(site.op->n) + "x" + std::to_string(site.op->k); }

std::string form_title(LlmForm form) { return form == LlmForm::AllReduce ? "all-reduce" : "sequence parallel"; }

/// "3.2 % (2 to 5 %)", or "0 %" if nothing is saved.
std::string saved_text(const LlmStep& step) {
  const auto& interval = step.benefit_interval;
  return percent_text(step.benefit()) + (interval ? " (" + render::span_text(interval->low, interval->high) + ")" : "");
}

void add_cells(const LlmStep* step, std::vector<std::string>& row) {
  if (step == nullptr) {
    row.insert(row.end(), {"-", "-"});
    return;
  }
  row.push_back(time_text(step->fused.us) + (step->missing.empty() ? "" : " *"));
  row.push_back(saved_text(*step));
}

/// Whether every layer that has an operator of one of the forms has a plan for all tokens from `first` to `last`. Only
/// then do the steps at the two ends say anything of those between.
bool is_planned_between(const LlmPlan& plan, std::int64_t first, std::int64_t last) {
  return std::ranges::none_of(plan.sites, [&](const LlmSite& site) {
    return site.ranges && std::ranges::any_of(site.ranges->gaps, [&](const planner::PlanGap& gap) {
             const LlmRun run = planner::tokens_of(site, {.first_m = gap.first_m, .last_m = gap.last_m, .rule = {}},
                                                   plan.first_tokens, plan.last_tokens);
             return run.first_tokens <= last && run.last_tokens >= first;
           });
  });
}

/// Steps next to each other at which one form takes less time.
struct FasterRun {
  LlmForm form;
  std::int64_t first, last;
};

std::vector<FasterRun> faster_runs(const LlmPlan& plan) {
  std::vector<FasterRun> runs;
  bool is_going_on = false;
  for (const std::int64_t tokens : planner::steps_between(plan.first_tokens, plan.last_tokens)) {
    const auto faster = planner::faster_form(plan.steps, tokens);
    const bool goes_on =
        faster && is_going_on && runs.back().form == *faster && is_planned_between(plan, runs.back().last, tokens);
    if (goes_on)
      runs.back().last = tokens;
    else if (faster)
      runs.push_back({*faster, tokens, tokens});
    is_going_on = faster.has_value();
  }
  return runs;
}

/// "all-reduce takes less time at m of 128:1024, sequence parallel at 100, 2048:16384".
std::string faster_text(const LlmPlan& plan) {
  const std::vector<FasterRun> runs = faster_runs(plan);
  std::vector<LlmForm> forms; // in the order in which they come
  for (const FasterRun& run : runs)
    if (std::ranges::find(forms, run.form) == forms.end()) forms.push_back(run.form);
  std::vector<std::string> texts;
  for (const LlmForm form : forms) {
    std::vector<std::string> all_m;
    for (const FasterRun& run : runs)
      if (run.form == form) all_m.push_back(render::m_text(run.first, run.last));
    texts.push_back(form_title(form) + (texts.empty() ? " takes less time at m of " : " at ") + list_text(all_m));
  }
  return list_text(texts);
}

Provenance weakest(const LlmPlan& plan) {
  Provenance result = Provenance::Measured;
  for (const LlmStep& step : plan.steps) result = std::max(result, step.fused.provenance);
  return result;
}

std::string provenance_text(Provenance provenance) {
  switch (provenance) {
    case Provenance::Analytic:
      return "ANALYTIC, from published constants: nothing was measured; they leave out memory bandwidth, so that few "
             "rows may take longer";
    case Provenance::Extrapolated: return "EXTRAPOLATED in part: blocks or sizes lie outside what was measured";
    default: return "predicted from what was measured on that machine";
  }
}

/// The layers without a plan, with each reason once.
Lines refusals(const LlmPlan& plan) {
  std::vector<std::pair<std::string, std::string>> by_reason;
  for (const LlmSite& site : plan.sites) {
    if (site.ranges) continue;
    const std::string name = site.layer.layer + " (" + std::string(to_string(site.kind)) + ")";
    const auto known = std::ranges::find(by_reason, site.reason, &std::pair<std::string, std::string>::first);
    if (known == by_reason.end())
      by_reason.emplace_back(site.reason, name);
    else
      known->second += ", " + name;
  }
  Lines lines;
  for (const auto& [reason, names] : by_reason) lines.push_back("not planned: " + names + ": " + reason);
  return lines;
}

std::string missing_text(const LlmPlan& plan) {
  std::set<std::string> names;
  for (const LlmStep& step : plan.steps) names.insert(step.missing.begin(), step.missing.end());
  return names.empty()
             ? ""
             : "* without these layers, which have no plan at that m or do not exist in that form: " + list_text(names);
}

/// The reason of the first layer of the form that has a gap at these tokens.
std::string gap_reason(const LlmPlan& plan, LlmForm form, std::int64_t tokens) {
  for (const LlmSite& site : plan.sites) {
    if (!site.ranges || !planner::has_kind(form, site.kind)) continue;
    const std::int64_t m = site.layer.rows_of(tokens, site.kind, plan.ranks);
    for (const auto& gap : site.ranges->gaps)
      if (gap.first_m <= m && m <= gap.last_m) return gap.reason;
  }
  return "";
}

/// The steps that have no time in this form, with the reason of the first one.
std::string untimed_text(const LlmPlan& plan, LlmForm form) {
  std::vector<std::int64_t> all_m;
  std::string reason;
  for (const std::int64_t tokens : planner::steps_between(plan.first_tokens, plan.last_tokens)) {
    if (planner::find_step(plan.steps, tokens, form) != nullptr) continue;
    if (all_m.empty()) reason = gap_reason(plan, form, tokens);
    all_m.push_back(tokens);
  }
  if (all_m.empty()) return "";
  return form_title(form) + ": no layer has a plan at m of " + list_text(all_m) +
         (reason.empty() ? "" : "; reason at the first: " + reason);
}

Lines without_empty(Lines lines) {
  std::erase(lines, "");
  return lines;
}

/// The range as cells "first,last,", in tokens.
std::string tokens_cells(const LlmPlan& plan, const LlmSite& site, const PlanRange& range) {
  const LlmRun run = planner::tokens_of(site, range, plan.first_tokens, plan.last_tokens);
  return std::to_string(run.first_tokens) + "," + std::to_string(run.last_tokens) + ",";
}

std::string remarks(const Lines& lines, int width) {
  std::string text;
  for (const auto& line : lines) text += remark(line, width);
  return text;
}

} // namespace

Cells layer_cells(const LlmPlan& plan) {
  Cells rows{{"layer", "collective", "nxk", "times", "fuse at m", "gain"}};
  for (const LlmSite& site : plan.sites) {
    if (!site.ranges) continue;
    rows.push_back({site.layer.layer, std::string(to_string(planner::traits_of(site.kind).collective)), size_text(site),
                    std::to_string(site.layer.count), fused_text(plan, site), gain_text(site.fused)});
  }
  return rows;
}

Cells step_cells(const LlmPlan& plan) {
  Cells rows{{"m"}};
  for (const LlmForm form : planner::kLlmForms) rows[0].insert(rows[0].end(), {form_title(form), "saved (90 %)"});
  std::int64_t last = 0;
  for (const LlmStep& step : plan.steps) {
    if (step.tokens == last) continue;
    last = step.tokens;
    std::vector<std::string> row{std::to_string(step.tokens)};
    for (const LlmForm form : planner::kLlmForms) add_cells(planner::find_step(plan.steps, step.tokens, form), row);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string model_title(const LlmPlan& plan) {
  return plan.name + (plan.config ? ", " + plan.config->architecture + ": " + plan.config->text() : "");
}

std::string model_facts(const LlmPlan& plan) {
  std::set<std::string> dtypes;
  for (const LlmSite& site : plan.sites) dtypes.emplace(to_string(site.layer.dtype));
  std::string text = std::to_string(plan.ranks) + " ranks";
  for (const std::string& dtype : dtypes) text += ", " + dtype;
  return text;
}

LlmNotes model_notes(const LlmPlan& plan) {
  LlmNotes notes{.layers = refusals(plan),
                 .steps = without_empty({missing_text(plan), untimed_text(plan, LlmForm::AllReduce),
                                         untimed_text(plan, LlmForm::SequenceParallel)}),
                 .all = {}};
  notes.all = without_empty(
      {faster_text(plan), provenance_text(weakest(plan)),
       "a step decodes m sequences or prefills m tokens; where each rank has m / ranks rows, m is padded to a multiple "
       "of the ranks. The times leave out attention, norms and everything else. The 90 % intervals assume that all "
       "layers are off in the same direction"});
  for (const auto& rest : plan.rest) notes.all.push_back("not fused: " + rest.what + ": " + rest.why);
  return notes;
}

std::string model_page(const LlmPlan& plan, int width) {
  const LlmNotes notes = model_notes(plan);
  std::string page = render::hanging("", model_title(plan), width) +
                     remark(model_facts(plan) + ", " + plan.fingerprint.label(), width) + "\n" +
                     render::table(layer_cells(plan), width) + remarks(notes.layers, width);
  if (plan.steps.empty()) return page;
  return page + "\n" + remark(std::string(kStepsTitle) + ":", width) + "\n" + render::table(step_cells(plan), width) +
         remarks(notes.steps, width) + "\n" + remarks(notes.all, width);
}

std::string model_csv(const LlmPlan& plan) {
  std::string text =
      "model,layer,kind,count,ranks,n,k,dtype,first_tokens,last_tokens,first_m,last_m,plan,variant,"
      "least_gain,most_gain,gain_low,gain_high,provenance,reason\n";
  for (const LlmSite& site : plan.sites) {
    const std::string shape = store::csv_cell(plan.name) + "," + store::csv_cell(site.layer.layer) + "," +
                              std::string(to_string(site.kind)) + "," + std::to_string(site.layer.count) + "," +
                              std::to_string(plan.ranks) + "," +
                              (site.op ? std::to_string(site.op->n) + "," + std::to_string(site.op->k) : ",") + "," +
                              std::string(to_string(site.layer.dtype)) + ",";
    if (!site.ranges) text += shape + ",,,,,,,,,,," + store::csv_cell(site.reason) + "\n";
    if (!site.ranges) continue;
    for (const PlanRange& range : site.ranges->ranges) {
      const auto& interval = range.benefit_interval;
      text += shape + tokens_cells(plan, site, range) + std::to_string(range.first_m) + "," +
              std::to_string(range.last_m) + "," + store::csv_cell(range.rule.text()) + "," +
              store::csv_cell(range.rule.variant.text()) + "," + number(range.least_benefit, "%.4f") + "," +
              number(range.most_benefit, "%.4f") + "," +
              (interval ? number(interval->low, "%.4f") + "," + number(interval->high, "%.4f") : ",") + "," +
              std::string(to_string(range.provenance)) + ",\n";
    }
    for (const auto& gap : site.ranges->gaps)
      text += shape + tokens_cells(plan, site, {.first_m = gap.first_m, .last_m = gap.last_m, .rule = {}}) +
              std::to_string(gap.first_m) + "," + std::to_string(gap.last_m) + ",,,,,,,," +
              store::csv_cell(gap.reason) + "\n";
  }
  return text;
}

std::string model_shapes(const finder::LlmQuestion& asked, std::span<const LlmSite> sites) {
  std::set<planner::OpSpec> known;
  std::string text = "op,m,n,k,dtype,ranks,experts_per_rank\n";
  const auto add = [&](const planner::OpSpec& op) {
    if (!known.insert(op).second) return;
    text += std::string(to_string(op.kind)) + "," + std::to_string(op.m) + "," + std::to_string(op.n) + "," +
            std::to_string(op.k) + "," + std::string(to_string(op.dtype)) + "," + std::to_string(op.world_size) + "," +
            std::to_string(op.experts_per_rank) + "\n";
  };
  for (const LlmSite& site : sites) {
    if (!site.op) continue;
    add(*site.op);
    for (const std::int64_t tokens : planner::steps_between(asked.first_tokens, asked.last_tokens)) {
      planner::OpSpec op = *site.op;
      op.m = site.layer.rows_of(tokens, site.kind, asked.ranks);
      if (planner::cut_axis(op) == planner::CutAxis::Columns) add(op); // each such m needs its own model
    }
  }
  return text;
}

} // namespace mc2::cli
