#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mc2/planner/planner.hpp"
#include "mc2/store/store.hpp"
#include "measure.hpp"

namespace mc2::cli {

struct TuneSettings {
  ProfileSettings profile;
  RaceSettings race;
  planner::PlanOptions plan;
  VariantOption variant;
  int contender_count = 4;                                         ///< cuts that race in one round
  std::shared_ptr<const planner::CostModel> known_model = nullptr; ///< taken instead of profiling
};

/// What tuning one operator found.
struct Tuned {
  planner::Plan plan; ///< the winner, with its validation; "do not cut" when no cut was faster beyond noise
  std::string plan_digest;
  planner::CostModel model;              ///< recalibrated
  Race race;                             ///< the last race
  std::vector<planner::Plan> contenders; ///< plans in the order of race.contenders
  std::vector<std::string> notes;        ///< what the fit and the recalibration had to say
};

/// The best cuts that differ enough to be worth racing: the best plan, then the best of other block counts.
[[nodiscard]] Result<std::vector<planner::Plan>> choose_contenders(const planner::OpSpec& op,
                                                                   const planner::CostModel& model,
                                                                   const planner::PlanOptions& options, int count);

/// Profiles (or reuses kept samples) and fits, unless it is given a model, which it does not keep; then plans, checks
/// the contenders' results, races them against the uncut plan, recalibrates the factors, races once more when the
/// recalibrated model prefers another cut, and keeps model, measurements and the winner. A cut is kept only when the
/// whole 95 % interval of its benefit is above zero. Errors: as its steps; Cancelled keeps samples and models that were
/// complete.
[[nodiscard]] Result<Tuned> tune_operator(Workbench& bench, const TuneSettings& settings, store::Store& store);

} // namespace mc2::cli
