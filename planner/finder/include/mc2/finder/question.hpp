#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/speed_spread.hpp"
#include "mc2/store/codec.hpp"

#pragma GCC visibility push(default)

namespace mc2::finder {

/// What a plan is asked for.
struct PlanQuestion {
  planner::OpSpec op;
  planner::Fingerprint machine;
  /// Unset: the tuned plan, or one by the defaults of the machine.
  std::optional<planner::PlanOptions> options = std::nullopt;
  /// Of this variant alone. No service chooses by it: whoever asks one leaves it unset.
  std::optional<planner::Variant> variant = std::nullopt;
  /// Whether a model of another n and k may answer (planner/transfer.hpp), which marks the plan as extrapolated.
  bool may_transfer = true;
  /// Times the uncut parts on the machine (profiler::time_uncut_parts): the plan is made from a model that is first
  /// brought to the speed that the machine has now. Unset: nothing is measured.
  std::function<Result<std::vector<planner::UncutTimes>>(const planner::CostModel&)> time_uncut = nullptr;
  /// Whether a kept plan says if it is worth tuning again (FoundPlan::staleness), which may take milliseconds.
  bool asks_staleness = false;
  /// Whether to give up planning: the error is Cancelled then.
  planner::StopCheck is_stopped = nullptr;

  /// As a document asks it: operator and options.
  [[nodiscard]] store::PlanRequest request() const;
  /// What the options ask that is not the machine's default (store::unusual_options); empty where that is nothing.
  [[nodiscard]] std::string unusual_options() const;
};

} // namespace mc2::finder

#pragma GCC visibility pop
