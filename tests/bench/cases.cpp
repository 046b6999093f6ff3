#include <algorithm>
#include <cmath>
#include <iostream>

#include "benches.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "pages/render.hpp"
#include "published_cases.hpp"

namespace mc2::cli {
namespace {

/// Worst and mean figures of the cases of one kind.
struct Tally {
  int case_count = 0;
  double worst_peer_error = 0, worst_uncut_error = 0; ///< |mc2's time of the published cut / published time - 1|
  double worst_over_best = -1, worst_over_uncut = -1; ///< mc2's plan / the other - 1, largest; <= 0: never slower
  double log_ratio_sum = 0;                           ///< sum of log(mc2's plan / the peer's plan)
  int peer_above_uncut_count = 0;

  void add(const PublishedCase& each, double reproduced_peer_us, double reproduced_uncut_us, double plan_us) {
    ++case_count;
    const auto raise = [](double& worst, double value) { worst = std::max(worst, value); };
    raise(worst_peer_error, std::abs(reproduced_peer_us / each.peer_us - 1));
    raise(worst_uncut_error, std::abs(reproduced_uncut_us / each.uncut_us - 1));
    raise(worst_over_best, plan_us / each.best_us - 1);
    raise(worst_over_uncut, plan_us / each.uncut_us - 1);
    log_ratio_sum += std::log(plan_us / each.peer_us);
    if (each.peer_us > each.uncut_us) ++peer_above_uncut_count;
  }
  void add(const Tally& other) {
    case_count += other.case_count;
    worst_peer_error = std::max(worst_peer_error, other.worst_peer_error);
    worst_uncut_error = std::max(worst_uncut_error, other.worst_uncut_error);
    worst_over_best = std::max(worst_over_best, other.worst_over_best);
    worst_over_uncut = std::max(worst_over_uncut, other.worst_over_uncut);
    log_ratio_sum += other.log_ratio_sum;
    peer_above_uncut_count += other.peer_above_uncut_count;
  }
  [[nodiscard]] std::vector<std::string> row(const std::string& name) const {
    const auto signed_percent = [](double ratio) { return number(ratio * 100, "%+.3f %%"); };
    return {name,
            std::to_string(case_count),
            signed_percent(worst_peer_error),
            signed_percent(worst_uncut_error),
            signed_percent(worst_over_best),
            signed_percent(worst_over_uncut),
            signed_percent(std::exp(log_ratio_sum / case_count) - 1),
            std::to_string(peer_above_uncut_count)};
  }
};

/// The family of cuts among which the file's best_us is the best.
planner::PlanOptions published_options() {
  planner::PlanOptions options;
  options.alignment = options.min_block_rows = 128;
  options.max_block_count = 16;
  return options;
}

Result<void> compare(const PublishedCase& each, Tally& tally) {
  const planner::CostModel& model = each.model;
  const planner::Variant& variant = model.variants.front().variant;
  MC2_ASSIGN(const auto peer, planner::predict_cut(model.op, model, variant, each.peer_cut));
  const planner::Cut whole = planner::uncut(model.op);
  MC2_ASSIGN(const auto uncut, planner::predict_cut(model.op, model, variant, whole));
  MC2_ASSIGN(const auto plan, planner::make_plan(model.op, model, published_options()));
  tally.add(each, peer.makespan.us, uncut.makespan.us, plan.makespan.us);
  return {};
}

// ---- strategies under contention ----

/// One strategy compared with an exact search over the lists from which the strategy may choose.
struct Regret {
  std::vector<double> ratios; ///< time of the strategy's plan / the reference's
  int slower_than_uncut_count = 0, refused_count = 0;

  [[nodiscard]] std::vector<std::string> row(const std::string& strategy, double slowdown) const {
    return {strategy,
            number(slowdown, "%.2f"),
            std::to_string(ratios.size()),
            percent_text(median(ratios) - 1),
            percent_text(std::ranges::max(ratios) - 1),
            std::to_string(slower_than_uncut_count),
            std::to_string(refused_count)};
  }
};

Result<Regret> regret_of(const std::vector<PublishedCase>& cases, const std::string& strategy,
                         const std::string& reference, double slowdown) {
  Regret regret;
  planner::PlanOptions options = published_options(), best = published_options();
  options.strategy = strategy;
  best.strategy = reference;
  for (const auto& each : cases) {
    planner::CostModel model = each.model;
    for (planner::LaneCost* lane : {&model.variants.front().compute, &model.variants.front().communication})
      lane->slowdown = slowdown;
    const auto theirs = planner::make_plan(model.op, model, options);
    MC2_ASSIGN(const auto ours, planner::make_plan(model.op, model, best));
    if (!theirs) {
      ++regret.refused_count;
      continue;
    }
    regret.ratios.push_back(theirs.value().makespan.us / ours.makespan.us);
    if (theirs.value().makespan.us > theirs.value().serial_us * (1 + 1e-9)) ++regret.slower_than_uncut_count;
  }
  if (regret.ratios.empty()) return Error{ErrorCode::Infeasible, strategy, "refuses every case"};
  return regret;
}

Result<void> print_strategies(const std::vector<PublishedCase>& cases) {
  std::vector<std::vector<std::string>> rows{
      {"strategy", "slow-down", "cases", "median regret", "worst", "above serial", "refused"}};
  for (const double slowdown : {1.0, 1.15, 1.5})
    for (const auto& [strategy, reference] :
         {std::pair{"search", "free"}, {"wave_groups", "free"}, {"formula", "search"}}) {
      MC2_ASSIGN(const auto regret, regret_of(cases, strategy, reference, slowdown));
      rows.push_back(regret.row(strategy, slowdown));
    }
  std::cout
      << "\nStrategies on the same cases, simulated with both lanes slowed down under each other; regret against\n"
         "the exact optimum of the lists that a strategy may choose from (free lists; short/long for formula)\n"
      << render::table(rows, render::kAnyWidth);
  return {};
}

} // namespace

Result<ExitCode> bench_published_cases(const std::string& file) {
  MC2_ASSIGN(const auto content, read_file(file));
  MC2_ASSIGN(const auto cases, parse_published_cases(content, file));
  std::vector<std::vector<std::string>> rows{{"kind", "cases", "worst error: peer", "uncut", "plan over best",
                                              "over uncut", "geomean to peer", "peer above uncut"}};
  Tally all;
  for (const auto& traits : planner::op_registry()) {
    Tally tally;
    for (const auto& each : cases)
      if (each.model.op.kind == traits.kind) MC2_TRY(compare(each, tally));
    if (tally.case_count > 0) rows.push_back(tally.row(std::string(traits.name)));
    all.add(tally);
  }
  rows.push_back(all.row("all"));
  std::cout << "Published cases of " << file << ": another planner's cuts and times, and mc2's plans\n"
            << render::table(rows, render::kAnyWidth);
  MC2_TRY(print_strategies(cases));
  return ExitCode::Success;
}

} // namespace mc2::cli
