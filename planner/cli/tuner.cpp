#include "tuner.hpp"

#include <algorithm>

#include "mc2/profiler/recalibrate.hpp"
#include "race_page.hpp"
#include "render.hpp"
#include "text.hpp"

namespace mc2::cli {
namespace {

/// Enough runners-up that plans of several block counts are among them.
constexpr int kSearchDepth = 100;
/// A contender predicted this much slower than the best is not worth the machine's time.
constexpr double kContenderMargin = 1.05;
/// Numbers of blocks closer than this tell much the same in a race; what a block costs besides is what models know
/// least.
constexpr double kBlockCountStep = 1.25;
constexpr double kVariantMargin = 1.2;
constexpr int kMaxRaceCount = 3;

Result<planner::CostModel> profile_and_fit(Workbench& bench, const ProfileSettings& settings, store::Store& store,
                                           std::vector<std::string>& notes) {
  auto summary = profile_operator(bench, settings, store);
  if (!summary) return summary.error();
  auto fitted = profiler::fit_cost_model({bench.op(), bench.fingerprint(), summary.value().samples});
  if (!fitted)
    return Error{fitted.error().code, fitted.error().field,
                 fitted.error().message + "; if the machine was busy, measure again with --fresh"};
  notes = fitted.value().notes;
  if (auto kept = store.put_model(fitted.value().model, utc_now()); !kept) return kept.error();
  return fitted.value().model;
}

std::vector<profiler::RaceObservation> observations(const Race& race) {
  std::vector<profiler::RaceObservation> result;
  for (const auto& contender : race.contenders)
    if (contender.overlaps)
      result.push_back({contender.variant, contender.cut, median(contender.fused_us), median(contender.compute_us),
                        median(contender.communication_us)});
  return result;
}

/// Adjusts the model's factors to what the race measured; without overlap in the race there is nothing to learn.
Result<planner::CostModel> learn(const planner::CostModel& model, const Race& race, std::vector<std::string>& notes) {
  const auto seen = observations(race);
  if (seen.empty()) return model;
  auto recalibrated = profiler::recalibrate(model, seen);
  if (!recalibrated) return recalibrated.error();
  notes.push_back("recalibrated: " + recalibrated.value().text);
  return recalibrated.value().model;
}

bool has_raced(const std::vector<planner::Plan>& raced, const planner::Plan& one) {
  return std::any_of(raced.begin(), raced.end(),
                     [&](const planner::Plan& plan) { return plan.cut == one.cut && plan.variant == one.variant; });
}

/// The contender with the largest measured benefit, or -1 when none is faster than serial beyond the noise.
int winner_of(const Race& race) {
  int winner = -1;
  double best = 0;
  for (int i = 0; i < static_cast<int>(race.contenders.size()); ++i) {
    const auto& contender = race.contenders[static_cast<std::size_t>(i)];
    if (!contender.overlaps) continue;
    const planner::Validation v = race.validation(contender);
    if (v.benefit_low <= 0 || v.benefit <= best) continue;
    best = v.benefit;
    winner = i;
  }
  return winner;
}

/// Why no cut is kept, with the best measured one as the witness.
std::string uncut_reason(const planner::OpSpec& op, const Race& race) {
  const Contender* best = nullptr;
  for (const auto& contender : race.contenders)
    if (contender.overlaps && (best == nullptr || race.validation(contender).benefit > race.validation(*best).benefit))
      best = &contender;
  if (best == nullptr)
    return "do not cut: no cut is predicted faster than " + std::string(to_string(planner::traits_of(op.kind).work)) +
           " then collective";
  const planner::Validation v = race.validation(*best);
  return "do not cut: the best cut, " + best->cut.text() +
         number(v.benefit * 100, ", measured %+.1f %% (95 %% interval ") + number(v.benefit_low * 100, "%+.1f to ") +
         number(v.benefit_high * 100, "%+.1f %%), not faster than serial beyond the noise");
}

/// What the winner left behind, as predicted and as measured.
std::vector<planner::RunnerUp> losers(const Race& race, const std::vector<planner::Plan>& contenders,
                                      const planner::Plan& winner, double winning_benefit) {
  std::vector<planner::RunnerUp> result;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if ((contenders[i].cut == winner.cut && contenders[i].variant == winner.variant) || !contenders[i].overlaps())
      continue;
    result.push_back({contenders[i].cut, contenders[i].variant, contenders[i].makespan.us,
                      number(race.validation(race.contenders[i]).benefit * 100, "measured benefit %.1f %% against ") +
                          number(winning_benefit * 100, "%.1f %%")});
  }
  return result;
}

Result<planner::Plan> kept_plan(const planner::OpSpec& op, const planner::CostModel& model, const Race& race,
                                const std::vector<planner::Plan>& contenders, const planner::PlanOptions& options) {
  const int winner = winner_of(race);
  const auto searched = planner::make_plan(op, model, options);
  if (!searched) return searched.error();
  if (winner < 0) {
    auto plan = planner::serial_plan(op, model, race.serial_variant);
    if (!plan) return plan.error();
    plan.value().strategy = searched.value().strategy;
    plan.value().reason = uncut_reason(op, race);
    plan.value().runners_up = losers(race, contenders, plan.value(), 0);
    return plan;
  }
  const Contender& contender = race.contenders[static_cast<std::size_t>(winner)];
  auto plan = planner::predict_cut(op, model, contender.variant, contender.cut);
  if (!plan) return plan.error();
  const planner::Plan& raced = contenders[static_cast<std::size_t>(winner)];
  if (plan.value().schedule != raced.schedule) plan = raced; // what ran, whatever the model makes of it now
  plan.value().strategy = searched.value().strategy;
  plan.value().validation = race.validation(contender);
  plan.value().makespan.provenance = planner::Provenance::Measured;
  plan.value().makespan.reason = "this cut was raced against serial on this machine";
  plan.value().reason = "fastest of " + std::to_string(race.contenders.size()) + " cuts raced on this machine, " +
                        std::string(to_string(plan.value().bound)) + " bound";
  plan.value().runners_up = losers(race, contenders, plan.value(), plan.value().validation->benefit);
  return plan;
}

/// The best cut of every variant that has none among the contenders and is not far behind: how two lanes disturb each
/// other is what a profile knows least, and it is what tells variants apart.
Result<void> add_other_variants(const planner::OpSpec& op, const planner::CostModel& model,
                                const planner::PlanOptions& options, std::vector<planner::Plan>& contenders) {
  const double limit_us = kVariantMargin * contenders.front().makespan.us;
  for (const auto& cost : model.variants) {
    if (std::ranges::find(contenders, cost.variant, &planner::Plan::variant) != contenders.end()) continue;
    planner::CostModel alone = model;
    alone.variants = {cost};
    auto plan = planner::make_plan(op, alone, options);
    if (!plan) return plan.error();
    if (plan.value().overlaps() && plan.value().makespan.us <= limit_us) contenders.push_back(std::move(plan).value());
  }
  return {};
}

} // namespace

Result<std::vector<planner::Plan>> choose_contenders(const planner::OpSpec& op, const planner::CostModel& model,
                                                     const planner::PlanOptions& options, int count) {
  planner::PlanOptions deep = options;
  deep.runner_up_count = kSearchDepth;
  auto best = planner::make_plan(op, model, deep);
  if (!best) return best.error();
  std::vector<planner::Plan> contenders{best.value()};
  std::vector<double> block_counts{1, static_cast<double>(best.value().cut.block_rows.size())};
  for (const auto& runner_up : best.value().runners_up) {
    if (static_cast<int>(contenders.size()) == count) break;
    if (runner_up.makespan_us > kContenderMargin * best.value().makespan.us) break;
    const auto block_count = static_cast<double>(runner_up.cut.block_rows.size());
    const auto is_near = [&](double other) {
      return std::max(block_count, other) < kBlockCountStep * std::min(block_count, other);
    };
    if (std::ranges::any_of(block_counts, is_near)) continue;
    block_counts.push_back(block_count);
    auto plan = planner::predict_cut(op, model, runner_up.variant, runner_up.cut);
    if (!plan) return plan.error();
    contenders.push_back(std::move(plan).value());
  }
  if (auto added = add_other_variants(op, model, options, contenders); !added) return added.error();
  return contenders;
}

Result<Tuned> tune_operator(Workbench& bench, const TuneSettings& settings, store::Store& store) {
  Tuned tuned;
  auto model = settings.known_model ? Result<planner::CostModel>(*settings.known_model)
                                    : profile_and_fit(bench, settings.profile, store, tuned.notes);
  if (!model) return model.error();
  tuned.model = std::move(model).value();
  auto offered = settings.variant.restrict(tuned.model);
  if (!offered) return offered.error();
  auto contenders = choose_contenders(bench.op(), offered.value(), settings.plan, settings.contender_count);
  if (!contenders) return contenders.error();
  tuned.contenders = std::move(contenders).value();

  std::size_t checked_count = 0; // of the contenders: an oracle of a large operator takes seconds
  for (int round = 1; round <= kMaxRaceCount; ++round) {
    for (; checked_count < tuned.contenders.size(); ++checked_count) {
      const planner::Plan& plan = tuned.contenders[checked_count];
      if (auto checked = bench.verify(plan); !checked) return checked.error();
    }
    auto raced = race(bench, tuned.contenders, settings.race, "race " + std::to_string(round));
    if (!raced) return raced.error();
    tuned.race = std::move(raced).value();
    auto learned = learn(tuned.model, tuned.race, tuned.notes);
    if (!learned) return learned.error();
    tuned.model = std::move(learned).value();
    offered = settings.variant.restrict(tuned.model);
    if (!offered) return offered.error();
    auto best = planner::make_plan(bench.op(), offered.value(), settings.plan);
    if (!best) return best.error();
    if (has_raced(tuned.contenders, best.value()) || !best.value().overlaps()) break;
    if (round < kMaxRaceCount) tuned.contenders.push_back(std::move(best).value());
  }
  tuned.notes.push_back("races ran for " + time_text(bench.total_timed_us()) + " in all");
  auto plan = kept_plan(bench.op(), offered.value(), tuned.race, tuned.contenders, settings.plan);
  if (!plan) return plan.error();
  tuned.plan = std::move(plan).value();

  // A model of another shape says nothing that was measured on this one.
  if (!settings.known_model)
    if (auto kept = store.put_model(tuned.model, utc_now()); !kept) return kept.error();
  for (std::size_t i = 0; i < tuned.contenders.size(); ++i) {
    const auto measurement = to_measurement(tuned.race, tuned.race.contenders[i], tuned.contenders[i]);
    if (auto kept = store.add_measurement(bench.fingerprint(), measurement, utc_now()); !kept) return kept.error();
  }
  auto digest = store.put_plan(tuned.plan, settings.variant.purpose(), utc_now());
  if (!digest) return digest.error();
  tuned.plan_digest = digest.value();
  return tuned;
}

} // namespace mc2::cli
