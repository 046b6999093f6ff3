#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/profiler/bench.hpp"
#include "mc2/profiler/race.hpp"
#include "mc2/profiler/sweep.hpp"
#include "mc2/profiler/tune_hooks.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

struct ProfileSettings {
  SweepOptions sweep;
  std::int64_t alignment = 128; ///< shortest block worth timing
  /// Timed visits for each variant, in all as many times that, earlier ones included: the longest, the shortest and the
  /// middle length of all variants first, then the middles of what is left. 0 for no limit.
  int max_measurement_count = 0;
  planner::PlanOptions plan; ///< of the plan whose own block lengths are timed, too

  /// Sets `plan`, and `alignment` to its.
  void plan_with(const planner::PlanOptions& options) {
    plan = options;
    alignment = options.alignment;
  }
};

struct TuneSettings {
  /// Of profiling and races together, by the bench's clock. No round starts after it but those that are always needed:
  /// one of the profile, RaceSettings::min_rounds of each race. The budgets of `profile` and `race` follow from it.
  std::chrono::milliseconds budget{60'000};
  ProfileSettings profile;
  RaceSettings race;
  planner::PlanOptions plan;
  std::optional<planner::Variant> only; ///< plan with this variant, whatever others the model knows
  int contender_count = 4;              ///< cuts that race in one round
  std::shared_ptr<const planner::CostModel> known_model = nullptr; ///< taken instead of profiling

  /// Sets `plan`, and `profile` to what serves it.
  void plan_with(const planner::PlanOptions& options) {
    plan = options;
    profile.plan_with(options);
  }
};

/// The fewest measurements that a model can be fitted to: three lengths of two lanes, and both lanes together.
inline constexpr int kMinMeasurementCount = 7;

/// What tuning one operator found.
struct Tuned {
  planner::Plan plan; ///< the winner, with its validation; "do not cut" when no cut was faster beyond noise
  std::optional<planner::CostModel> model; ///< recalibrated; none where the samples could not be fitted
  Race race;                               ///< the last race
  std::vector<planner::Plan> contenders;   ///< plans in the order of race.contenders
  std::vector<planner::Sample> samples;    ///< of the profile, earlier ones included; none with a known model
  std::vector<std::string> notes;          ///< what the fit and the recalibration had to say
};

/// Leaves out variants that a few runs show to be dominated, then times both lanes of the others, alone and together,
/// over a sweep of block lengths, and then at those lengths of the plan they lead to that were not among them, while it
/// has such, at most eight times. Samples go to `keeper` after every round, and earlier ones count. Errors: as Bench,
/// Keeper and run_sweep; Cancelled keeps what was measured.
[[nodiscard]] Result<SweepSummary> profile(Bench& bench, const ProfileSettings& settings, Keeper& keeper,
                                           const TuneHooks& hooks = {});

/// The best cuts that differ enough to be worth racing: the best plan, the best of other block counts, and the best cut
/// of every variant that has none among them and is not far behind. Errors: as planner::make_plan.
[[nodiscard]] Result<std::vector<planner::Plan>> choose_contenders(const planner::OpSpec& op,
                                                                   const planner::CostModel& model,
                                                                   const planner::PlanOptions& options, int count);

/// THE tuner, of the program, host programs, Python and PyTorch. Profiles (or reuses kept samples) and fits, unless it
/// is given a model, which it does not keep; then plans, checks the contenders' results, races them and the bench's
/// rivals against serial, recalibrates the factors, races again when the recalibrated model prefers another cut, and
/// keeps model, measurements and the winner. A cut is kept only when the whole 95 % interval of its benefit is above
/// zero. Where the samples cannot be fitted, a few plain cuts race without a model, and the winner predicts nothing.
/// Errors: as its steps, but for CannotFit; NotFound when the model knows nothing of settings.only; Cancelled keeps
/// samples and models that were complete. Throws SystemError as the bench.
[[nodiscard]] Result<Tuned> tune(Bench& bench, const TuneSettings& settings, Keeper& keeper,
                                 const TuneHooks& hooks = {});

} // namespace mc2::profiler

#pragma GCC visibility pop
