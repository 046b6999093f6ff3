#include "tune/judge.hpp"

#include "mc2/planner/speed_spread.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::profiler {
namespace {

using planner::Plan;

/// While a losing cut's interval still reaches above this gain, the race has not decided.
constexpr double kWorthAnotherRace = 0.02;

/// The raced plan as the recalibrated model predicts it. Returns the plan as it was raced where the model does not know
/// the variant or would choose another schedule.
Result<Plan> predicted(const planner::OpSpec& op, const planner::CostModel& model, const Plan& raced) {
  if (model.cost_of(raced.variant) == nullptr) return raced;
  auto plan = planner::predict_cut(op, model, raced.variant, raced.cut);
  if (plan && plan.value().schedule != raced.schedule) return raced;
  return plan;
}

/// The same for several, so that a plan and its runners-up are of one model.
std::vector<Plan> predicted(const planner::OpSpec& op, const planner::CostModel& model, std::span<const Plan> raced) {
  std::vector<Plan> plans;
  for (const Plan& one : raced) {
    auto plan = predicted(op, model, one);
    plans.push_back(plan ? std::move(plan).value() : one);
  }
  return plans;
}

} // namespace

std::string uncut_reason(const planner::OpSpec& op, const Race& race) {
  const Contender* best = nullptr;
  for (const auto& contender : race.contenders)
    if (!contender.is_serial && (best == nullptr || contender.validation().benefit > best->validation().benefit))
      best = &contender;
  if (best == nullptr)
    return "do not cut: no cut is predicted faster than " + std::string(to_string(planner::traits_of(op.kind).work)) +
           " then collective";
  const planner::Validation v = best->validation();
  const bool is_decided = v.benefit_low >= 0 || v.benefit_high <= kWorthAnotherRace;
  return std::string(is_decided ? "do not cut: " : planner::kUndecided) + "the best cut, " + best->cut.text() +
         ", measured " + number(v.benefit * 100, "%+.1f %%") + " (95 % interval " +
         number(v.benefit_low * 100, "%+.1f") + " to " + number(v.benefit_high * 100, "%+.1f %%") +
         (is_decided ? "), not faster than serial beyond the noise" : "), too noisy to tell");
}

std::vector<planner::RunnerUp> losers(const Race& race, std::span<const Plan> contenders, const Plan& winner,
                                      double winning_benefit) {
  std::vector<planner::RunnerUp> result;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const bool is_winner = planner::is_same_choice(contenders[i], winner);
    if (is_winner || race.contenders[i].is_serial) continue;
    const planner::Validation v = race.contenders[i].validation();
    const bool is_noise = v.benefit > winning_benefit && v.benefit_low <= 0;
    result.push_back({contenders[i].cut, contenders[i].variant, contenders[i].makespan.us,
                      "measured benefit " + percent_text(v.benefit) +
                          (is_noise ? " (95 % interval " + number(v.benefit_low * 100, "%+.1f") + " to " +
                                          number(v.benefit_high * 100, "%+.1f %%") + "), which the noise explains"
                                    : " against " + percent_text(winning_benefit))});
  }
  return result;
}

Result<Plan> judge(const planner::OpSpec& op, const planner::CostModel& raced_model, const Race& race,
                   std::span<const Plan> contenders, const planner::PlanOptions& options) {
  const int winner = winner_of({&race, 1});
  MC2_ASSIGN(const auto searched, planner::make_plan(op, raced_model, options));
  // The plan is kept for other days, so its interval has what a machine's speed changes by.
  const planner::CostModel model = planner::with_spread(raced_model, planner::speed_spread({}, 0));
  if (winner < 0) {
    const bool is_modelled = model.cost_of(race.serial_variant) != nullptr;
    MC2_ASSIGN(auto plan,
               planner::serial_plan(op, model, is_modelled ? race.serial_variant : model.variants.front().variant));
    plan.strategy = searched.strategy;
    if (is_modelled) plan.validation = race.serial_validation();
    plan.reason = uncut_reason(op, race);
    plan.runners_up = losers(race, predicted(op, model, contenders), plan, 0);
    return plan;
  }
  const auto index = static_cast<std::size_t>(winner);
  MC2_ASSIGN(auto plan, predicted(op, model, contenders[index]));
  plan.strategy = searched.strategy;
  plan.validation = race.contenders[index].validation();
  const std::size_t count = race.contenders.size();
  plan.reason = (count == 1 ? "the only cut" : "fastest of " + std::to_string(count) + " cuts") +
                " raced on this machine, " + std::string(to_string(plan.bound)) + " bound";
  plan.runners_up = losers(race, predicted(op, model, contenders), plan, plan.validation->benefit);
  return plan;
}

} // namespace mc2::profiler
