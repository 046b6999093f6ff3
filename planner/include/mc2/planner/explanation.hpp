#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/pipeline.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/sensitivity.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// How one lane spends a makespan: busy + before + between + after.
struct LaneUse {
  double busy_us = 0;
  double before_us = 0;  ///< idle before its first block
  double between_us = 0; ///< idle between blocks
  double after_us = 0;   ///< after its last block: idle, and what a run takes besides its blocks
  bool operator==(const LaneUse&) const = default;
};

/// How both lanes spend a makespan. The exposed head is second.before_us, the exposed tail is first.after_us.
struct TimelineUse {
  LaneUse first, second;
  double overlap_us = 0; ///< both lanes busy
  bool operator==(const TimelineUse&) const = default;
};

/// The makespan as a sum, seen from the lane that bounds the operator.
///   makespan = uncut + cutting + contention + before + between + after
/// With s the lane's slow-down and O the overlap, its undisturbed work is busy - O (1 - 1/s), so
/// contention = O (1 - 1/s) and cutting = busy - contention - uncut. docs/cost_model.md §10.
struct Account {
  Lane lane = Lane::Compute;
  double uncut_us = 0;      ///< the lane's part of the serial operator
  double cutting_us = 0;    ///< extra cost of its blocks over uncut_us; negative if blocks are cheaper than the whole
  double contention_us = 0; ///< extra time because the other lane slows it down
  double before_us = 0, between_us = 0, after_us = 0; ///< waiting for the other lane

  [[nodiscard]] double waits_us() const noexcept { return before_us + between_us + after_us; }
  [[nodiscard]] double sum_us() const noexcept { return uncut_us + cutting_us + contention_us + waits_us(); }
  bool operator==(const Account&) const = default;
};

/// How much slower a runner-up is than the plan, and why.
struct Loss {
  double lost_us = 0; ///< its predicted makespan minus the plan's, as the plan states them
  /// The runner-up's account minus the plan's, both by the model. None without a model, or if it cannot predict a cut.
  std::optional<Account> difference;
  bool operator==(const Loss&) const = default;
};

/// A measured run of the plan on its slowest rank.
struct MeasuredRun {
  Timeline timeline; ///< first = the kind's first lane
  TimelineUse use;
  bool operator==(const MeasuredRun&) const = default;
};

/// Why a plan is what it is. Made by explain(); schemas/explanation.schema.json.
struct Explanation {
  Plan plan;
  TimelineUse use; ///< of the predicted timeline
  Account account;
  std::string bound_text;                 ///< what bounds it, one or two sentences
  std::vector<Loss> losses;               ///< one for each of the plan's runners-up, at most kMaxRunnerUpCount
  std::optional<Sensitivity> sensitivity; ///< none without the model
  std::optional<MeasuredRun> measured;
  std::vector<std::string> notes; ///< what could not be explained and why, and what contradicts the plan
  bool operator==(const Explanation&) const = default;
};

/// How a lane spends a run of `makespan_us`. The spans are in order and none starts before 0. All is 0 for a lane
/// without blocks.
[[nodiscard]] LaneUse lane_use(std::span<const Span> blocks, double makespan_us) noexcept;
[[nodiscard]] TimelineUse timeline_use(const Timeline& timeline) noexcept;

/// Explains a plan from any source. Without a model the parts that need one are named in `notes`.
/// @param model    the model that the plan was made from, or nullptr
/// @param options  the limits within which the plan was made; used for the sensitivity
/// Errors: as Plan::validate and PlanOptions::validate; InvalidSpec for a plan without a timeline; Cancelled.
[[nodiscard]] Result<Explanation> explain(const Plan& plan, const CostModel* model, const PlanOptions& options,
                                          const StopCheck& is_stopped = {});

} // namespace mc2::planner

#pragma GCC visibility pop
