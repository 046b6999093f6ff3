#include "tune/without_model.hpp"

#include <algorithm>
#include <cmath>

#include "mc2/planner/cutting.hpp"
#include "tune/judge.hpp"

namespace mc2::profiler {
namespace {

using planner::Plan;

constexpr int kBlockCounts[] = {2, 4, 8, 16};
constexpr int kBlockCountOfOthers = 4;

/// The cut whose number of blocks is nearest to `count`; among equally near cuts, the one with the most equal blocks.
const planner::Cut& nearest(const std::vector<planner::Cut>& cuts, int count) {
  const auto distance = [&](const planner::Cut& cut) {
    const double ratio = std::abs(std::log(static_cast<double>(cut.block_rows.size()) / count));
    const auto [least, most] = std::ranges::minmax(cut.block_rows);
    return std::pair(ratio, most - least);
  };
  return *std::ranges::min_element(cuts, {}, distance);
}

bool has_cut(const Race& race) { return !std::ranges::all_of(race.contenders, &Contender::is_serial); }

} // namespace

Result<std::vector<Plan>> plain_contenders(const Bench& bench, const planner::PlanOptions& options,
                                           const std::optional<planner::Variant>& only) {
  MC2_ASSIGN(const auto cuts, planner::enumerate_cuts(bench.op(), options));
  std::vector<Plan> contenders;
  const auto add = [&](const planner::Cut& cut, const planner::Variant& variant) -> Result<void> {
    MC2_ASSIGN(auto plan, planner::unpredicted_plan(bench.op(), bench.fingerprint(), variant, cut));
    const bool is_there =
        std::ranges::any_of(contenders, [&](const Plan& other) { return planner::is_choice(other, cut, variant); });
    if (plan.overlaps() && !is_there) contenders.push_back(std::move(plan));
    return {};
  };
  const std::span<const planner::Variant> variants = only ? std::span(&*only, 1) : bench.variants();
  for (const auto& variant : variants) {
    MC2_TRY(add(planner::uncut(bench.op()), variant));
    const bool is_first = variant == variants.front();
    for (const int count : kBlockCounts)
      if (is_first || count == kBlockCountOfOthers) MC2_TRY(add(nearest(cuts, count), variant));
  }
  if (!contenders.empty()) return contenders;
  MC2_ASSIGN(auto serial, planner::unpredicted_plan(bench.op(), bench.fingerprint(), variants.front(),
                                                    planner::uncut(bench.op()), planner::Schedule::Serial));
  return std::vector{std::move(serial)};
}

Plan judge_without_model(const Race& race, std::span<const Plan> contenders, const planner::PlanOptions& options,
                         const std::string& why) {
  const int winner = winner_of({&race, 1});
  Plan plan = contenders[static_cast<std::size_t>(std::max(winner, 0))];
  if (winner >= 0) {
    plan.validation = race.contenders[static_cast<std::size_t>(winner)].validation();
    plan.reason = "fastest of " + std::to_string(contenders.size()) + " cuts raced on this machine";
  } else {
    plan.cut = planner::uncut(plan.op);
    plan.variant = race.serial_variant;
    plan.schedule = planner::Schedule::Serial;
    plan.validation = race.serial_validation();
    plan.reason =
        has_cut(race) ? uncut_reason(plan.op, race) : "do not cut: " + planner::no_legal_cut_text(plan.op, options);
  }
  plan.runners_up = losers(race, contenders, plan, plan.validation->benefit);
  plan.strategy = "raced";
  plan.makespan.reason = "raced, no model: " + why;
  return plan;
}

} // namespace mc2::profiler
