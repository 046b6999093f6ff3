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
  /// Unset: the tuned plan, else a plan made with the machine's defaults.
  std::optional<planner::PlanOptions> options = std::nullopt;
  /// Set: only plans of this variant. A service cannot choose by variant, so callers that ask a service leave it unset.
  std::optional<planner::Variant> variant = std::nullopt;
  /// Whether a model of another n and k may answer (planner/transfer.hpp). The plan is then marked as extrapolated.
  bool may_transfer = true;
  /// Times each lane alone on the machine (profiler::time_lanes). The model is brought to the speed that the machine
  /// has now before it makes the plan. Unset: nothing is measured.
  std::function<Result<std::vector<planner::TimedLanes>>(const planner::CostModel&)> time_lanes = nullptr;
  /// Asked during planning: if it returns true, planning ends with the error Cancelled.
  planner::StopCheck is_stopped = nullptr;
  /// Called with each m, ascending, that find_ranges() has planned alone or is done up to; may be empty.
  std::function<void(std::int64_t m)> on_planned = nullptr;

  /// The question as a request document: operator and options.
  [[nodiscard]] store::PlanRequest request() const;
  /// The options that differ from the machine's defaults (store::unusual_options); empty if none does.
  [[nodiscard]] std::string unusual_options() const;
};

} // namespace mc2::finder

#pragma GCC visibility pop
