#include "regret.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "options/numbers.hpp"
#include "options/shapes.hpp"
#include "pages/render.hpp"
#include "pages/terminal.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

using Clock = std::chrono::steady_clock;
using executor::RunMode;

constexpr int kQualifyingPairs = 3;

Result<std::vector<planner::Plan>> everybody(const Workbench& bench, const planner::PlanOptions& options) {
  MC2_ASSIGN(const auto family, planner::enumerate_cuts(bench.op(), options));
  std::vector<planner::Plan> plans;
  for (const auto& variant : bench.variants()) {
    MC2_ASSIGN(const auto own, plans_of(bench, family, variant));
    plans.insert(plans.end(), own.begin(), own.end());
  }
  return plans;
}

/// Fused / serial of a plan. Prepares the plan and releases it afterwards, unless it was prepared before.
Result<double> qualify(Workbench& bench, const planner::Plan& plan, executor::Prepared& serial) {
  const bool stays = bench.is_ready(plan.cut, plan.variant);
  MC2_ASSIGN(auto prepared, bench.ready(plan.cut, plan.variant));
  (void)wall_us(*prepared, RunMode::Fused);
  MC2_ASSIGN(const auto pairs, time_pairs(
                                   kQualifyingPairs, [&] { return wall_us(*prepared, RunMode::Fused); },
                                   [&] { return wall_us(serial, RunMode::Serial); }));
  if (!stays) bench.forget(plan.cut, plan.variant);
  return pairs.ratio();
}

Result<std::vector<double>> qualify_all(Workbench& bench, const std::vector<planner::Plan>& plans,
                                        const planner::Variant& serial_variant) {
  const planner::Cut uncut = planner::uncut(bench.op());
  MC2_ASSIGN(const auto serial, bench.ready(uncut, serial_variant));
  const std::string label = "brute force, " + std::to_string(plans.size()) + " plans";
  ProgressLine progress(label);
  std::vector<double> ratios;
  for (const auto& plan : plans) {
    MC2_ASSIGN(const auto ratio, qualify(bench, plan, *serial));
    ratios.push_back(ratio);
    const double done = static_cast<double>(ratios.size()) / static_cast<double>(plans.size());
    progress.update(done, std::to_string(ratios.size()));
  }
  return ratios;
}

/// Races all plans and returns the last heat, whose first contender is `kept`.
Result<Race> race_everybody(Workbench& bench, const std::vector<planner::Plan>& plans, const planner::Plan& kept) {
  RaceSettings settings;
  settings.take_rounds(kQualifyingPairs);
  MC2_ASSIGN(const auto raced, shown_race(bench, {kept}, settings, "kept plan"));
  MC2_ASSIGN(auto ratios, qualify_all(bench, plans, raced.serial_variant));
  return race_fastest(bench, plans, std::move(ratios), {kept});
}

/// Fills the figure from a race. @param race  its first contender is the kept plan
void judge(const planner::Plan& kept, const Race& race, RegretFigure& figure) {
  const bool is_cut = kept.schedule != planner::Schedule::Serial;
  const auto ratios = ratios_of(race);
  const auto best = static_cast<std::size_t>(std::ranges::min_element(ratios) - ratios.begin());
  figure.planned = plan_text(kept);
  figure.planned_us = median(is_cut ? race.contenders.front().fused_us : race.contenders.front().serial_us);
  figure.best = race.contenders[best].cut.text() + " " + race.contenders[best].variant.text();
  figure.best_us = median(race.contenders[best].fused_us);
  figure.regret = std::max(0.0, (is_cut ? ratios.front() : 1.0) / ratios[best] - 1);
}

void print_figures(const std::vector<RegretFigure>& figures) {
  std::vector<std::vector<std::string>> rows{{"shape", "plans", "kept plan", "measured", "fastest of all", "measured",
                                              "regret", "tuned in", "brute force in"}};
  std::vector<double> regrets;
  for (const auto& each : figures) {
    rows.push_back({each.op.text(), std::to_string(each.contender_count), each.planned, time_text(each.planned_us),
                    each.best, time_text(each.best_us), percent_text(each.regret), time_text(each.tuning_s * 1e6),
                    time_text(each.brute_force_s * 1e6)});
    regrets.push_back(each.regret);
  }
  std::cout << "Tuned plans against brute force: every cut of the short/long family with every variant\n"
            << render::table(rows, render::kAnyWidth);
  if (!regrets.empty()) std::cout << spread_text("regret", regrets);
}

} // namespace

void RegretBench::add_to(CLI::App& app) {
  app.add_option("--backend", machine.backend, "what runs the plans; `mc2 doctor` lists them")->capture_default_str();
  app.add_option("--link", machine.link, "of the host backend, as in mc2 tune")->capture_default_str();
  app.add_option("--shapes", shapes_file, "CSV file (columns m,n,k[,op,dtype,ranks])")->capture_default_str();
  app.add_option("--budget", budget_s, "seconds to tune each shape in")
      ->capture_default_str()
      ->check(real_number(0.1, 86'400));
  app.add_option("--alignment", alignment, "blocks are multiples of so many rows; larger ones make a smaller family")
      ->check(whole_number(1, planner::kMaxSize));
  app.add_option("--time-limit", time_limit_s, "seconds after which no new shape starts (default: none)")
      ->check(real_number(0, 86'400));
  app.footer("Example:\n  mc2-bench regret --backend cuda --alignment 256");
}

Result<RegretFigure> RegretBench::figure_of(const planner::OpSpec& op) const {
  MC2_ASSIGN(const auto backend, machine.find());
  MC2_ASSIGN(const auto options, machine.communicator_options(op.world_size));
  TuneSettings settings = bench_settings(0.1 * budget_s, backend->name());
  if (alignment) settings.plan->alignment = settings.plan->min_block_rows = *alignment;
  settings.profile.plan = settings.plan;
  settings.budget = planner::to_ms(budget_s);
  MC2_ASSIGN(auto bench, Workbench::open(*backend, options, op, fresh_seed()));
  MC2_ASSIGN(const auto family, everybody(*bench, *settings.plan));
  ScratchStore scratch;
  MC2_ASSIGN(auto store, scratch.open());
  auto start = Clock::now();
  MC2_ASSIGN(const auto tuned, tune_operator(*bench, settings, store));
  RegretFigure figure;
  figure.op = op;
  figure.contender_count = family.size();
  figure.tuning_s = seconds_since(start);
  start = Clock::now();
  MC2_ASSIGN(const auto raced, race_everybody(*bench, family, tuned.plan));
  figure.brute_force_s = seconds_since(start);
  judge(tuned.plan, raced, figure);
  return figure;
}

Result<ExitCode> RegretBench::run() const {
  MC2_ASSIGN(const auto content, read_file(shapes_file));
  MC2_ASSIGN(const auto shapes, parse_shapes(content, shapes_file, OpOptions{}));
  std::vector<RegretFigure> figures;
  const auto start = Clock::now();
  for (const auto& op : shapes) {
    if (time_limit_s && seconds_since(start) > *time_limit_s) {
      std::cerr << "mc2: left out, the time is up: " << op.text() << "\n";
      continue;
    }
    auto figure = figure_of(op);
    if (!figure) return Error{figure.error().code, op.text(), figure.error().text()};
    figures.push_back(std::move(figure).value());
    std::cerr << "mc2: " << op.text() << ": regret " << percent_text(figures.back().regret) << "\n";
  }
  print_figures(figures);
  return ExitCode::Success;
}

} // namespace mc2::cli
