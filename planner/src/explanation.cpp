#include "mc2/planner/explanation.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

constexpr double kSamePrediction = 0.001; ///< relative

/// Time during which both lanes have a running span; both lists are in order.
double overlap_us(std::span<const Span> first, std::span<const Span> second) {
  double sum_us = 0;
  for (std::size_t i = 0, j = 0; i < first.size() && j < second.size();) {
    const double start = std::max(first[i].start_us, second[j].start_us);
    const double end = std::min(first[i].end_us, second[j].end_us);
    sum_us += std::max(0.0, end - start);
    ++(first[i].end_us < second[j].end_us ? i : j);
  }
  return sum_us;
}

Lane bounding_lane(const Plan& plan) { return plan.bound == Bound::Compute ? Lane::Compute : Lane::Communication; }

Account account_of(const Plan& plan) {
  const TimelineUse use = timeline_use(plan.timeline);
  const Lane bound = bounding_lane(plan);
  const bool is_first = traits_of(plan.op.kind).first_lane == bound;
  const LaneUse& lane = is_first ? use.first : use.second;
  const double slowdown = is_first ? plan.slowdown.first : plan.slowdown.second;
  Account account;
  account.lane = bound;
  account.uncut_us = bound == Lane::Compute ? plan.compute_us : plan.communication_us;
  account.contention_us = use.overlap_us * (1 - 1 / slowdown);
  account.cutting_us = lane.busy_us - account.contention_us - account.uncut_us;
  account.before_us = lane.before_us;
  account.between_us = lane.between_us;
  account.after_us = lane.after_us;
  return account;
}

Account minus(const Account& a, const Account& b) {
  return {b.lane,
          a.uncut_us - b.uncut_us,
          a.cutting_us - b.cutting_us,
          a.contention_us - b.contention_us,
          a.before_us - b.before_us,
          a.between_us - b.between_us,
          a.after_us - b.after_us};
}

std::string bound_text(const Plan& plan, const TimelineUse& use) {
  const bool is_first = traits_of(plan.op.kind).first_lane == bounding_lane(plan);
  const LaneUse& lane = is_first ? use.first : use.second;
  const double makespan_us = plan.timeline.makespan_us;
  const std::string name(to_string(plan.bound));
  std::string text =
      name + " bound: uncut, " + name + " takes " + time_text(plan.ideal_us) + " of " + time_text(plan.serial_us);
  if (!plan.overlaps()) return text + "; uncut, nothing overlaps";
  if (makespan_us > 0)
    text += "; its lane is busy for " + percent_text(lane.busy_us / makespan_us) + " of the makespan";
  return text + "; exposed are the head, " + time_text(use.second.before_us) +
         " before the second lane starts, and the tail, " + time_text(use.first.after_us) +
         " after the first lane ends";
}

/// Whether a race decided against an overlap that the model still predicts.
bool is_serial_by_race(const Plan& plan, const Plan& predicted) {
  return plan.schedule == Schedule::Serial && predicted.overlaps();
}

/// The model's prediction of the plan's cut with the plan's schedule.
Result<Plan> predicted_again(const Plan& plan, const CostModel& model) {
  auto predicted = predict_cut(plan.op, model, plan.variant, plan.cut, plan.counts);
  return predicted && is_serial_by_race(plan, predicted.value())
             ? serial_plan(plan.op, model, plan.variant, plan.counts)
             : predicted;
}

/// Notes where the model predicts another time for the same cut, e.g. because it was fitted again since.
void compare_with_model(Explanation& explanation, const CostModel& model) {
  const Plan& plan = explanation.plan;
  const auto predicted = predicted_again(plan, model);
  if (!predicted) return;
  const double us = predicted.value().makespan.us;
  const auto differs = [&](const Loss& loss) {
    return loss.difference && std::abs(loss.difference->sum_us() - loss.lost_us) > kSamePrediction * plan.makespan.us;
  };
  if (std::any_of(explanation.losses.begin(), explanation.losses.end(), differs))
    explanation.notes.push_back(
        "the runners-up were predicted with an earlier state of the model; their losses here are computed with the "
        "present state");
  if (std::abs(us - plan.makespan.us) <= kSamePrediction * plan.makespan.us) return;
  explanation.notes.push_back("the cost model predicts " + time_text(us) + " for this cut and the plan " +
                              time_text(plan.makespan.us) +
                              ": the model has changed since, is not the plan's, or was asked with --contention or "
                              "--block-overhead");
}

/// The account by the model, so that both sides of a difference come from the same model; none for a cut of too many
/// blocks.
template <typename Predict>
std::optional<Account> model_account(const Cut& cut, const Predict& predict) {
  if (std::ssize(cut.block_rows) > kMaxBlockCount) return std::nullopt;
  const Result<Plan> predicted = predict();
  return predicted ? std::optional(account_of(predicted.value())) : std::nullopt;
}

void add_losses(Explanation& explanation, const CostModel* model) {
  const Plan& plan = explanation.plan;
  const auto ours =
      model == nullptr ? std::nullopt : model_account(plan.cut, [&] { return predicted_again(plan, *model); });
  for (const auto& loser : plan.runners_up) {
    if (std::ssize(explanation.losses) == kMaxRunnerUpCount) break;
    Loss loss{loser.makespan_us - plan.makespan.us, std::nullopt};
    if (ours)
      if (const auto theirs = model_account(
              loser.cut, [&] { return predict_cut(plan.op, *model, loser.variant, loser.cut, plan.counts); }))
        loss.difference = minus(*theirs, *ours);
    explanation.losses.push_back(loss);
  }
}

/// Errors: Cancelled.
Result<void> add_sensitivity(Explanation& explanation, const CostModel* model, const PlanOptions& options,
                             const StopCheck& is_stopped) {
  if (model == nullptr) {
    explanation.notes.push_back("no cost model: sensitivity, curves and what each runner-up lost by are left out");
    return {};
  }
  if (!explanation.plan.counts.empty()) {
    explanation.notes.push_back(
        "sensitivity is left out: it is studied only where all ranks exchange equally many rows");
    return {};
  }
  compare_with_model(explanation, *model);
  const Plan& plan = explanation.plan;
  if (const auto predicted = predict_cut(plan.op, *model, plan.variant, plan.cut);
      predicted && is_serial_by_race(plan, predicted.value())) {
    explanation.notes.push_back(
        "sensitivity is left out: a race decided against overlapping, and the model only knows the uncut operator that "
        "overlaps");
    return {};
  }
  auto sensitivity = analyse_sensitivity(explanation.plan, *model, options, is_stopped);
  if (!sensitivity && sensitivity.error().code == ErrorCode::Cancelled) return sensitivity.error();
  if (sensitivity)
    explanation.sensitivity = std::move(sensitivity).value();
  else
    explanation.notes.push_back("sensitivity: " + sensitivity.error().text());
  return {};
}

} // namespace

LaneUse lane_use(std::span<const Span> blocks, double makespan_us) noexcept {
  LaneUse use;
  if (blocks.empty()) return use;
  for (const Span& block : blocks) use.busy_us += block.end_us - block.start_us;
  use.before_us = blocks.front().start_us;
  use.after_us = std::max(0.0, makespan_us - blocks.back().end_us);
  use.between_us = std::max(0.0, blocks.back().end_us - use.before_us - use.busy_us);
  return use;
}

TimelineUse timeline_use(const Timeline& timeline) noexcept {
  return {lane_use(timeline.first, timeline.makespan_us), lane_use(timeline.second, timeline.makespan_us),
          overlap_us(timeline.first, timeline.second)};
}

Result<Explanation> explain(const Plan& plan, const CostModel* model, const PlanOptions& options,
                            const StopCheck& is_stopped) {
  MC2_TRY(plan.validate());
  MC2_TRY(validate_timeline(plan.timeline, plan.span_count()));
  MC2_TRY(options.validate());
  if (model != nullptr && options.has_assumptions()) {
    const Assumed assumed = assume(*model, options);
    return explain(plan, &assumed.model, assumed.options, is_stopped);
  }
  Explanation explanation;
  explanation.plan = plan;
  explanation.use = timeline_use(plan.timeline);
  explanation.account = account_of(plan);
  explanation.bound_text = bound_text(plan, explanation.use);
  add_losses(explanation, model);
  MC2_TRY(add_sensitivity(explanation, model, options, is_stopped));
  return explanation;
}

} // namespace mc2::planner
