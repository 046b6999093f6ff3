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
  /// Timed visits to cases per variant, earlier ones included; the profile ends after this times the number of
  /// variants. The longest, the shortest and the middle length of all variants come first, then the middles of the
  /// remaining gaps. 0 for no limit.
  int max_measurement_count = 0;
  /// For the plans whose own block lengths are timed as well. Its alignment is the shortest block worth timing. Unset:
  /// the machine's defaults (planner::default_options_on).
  std::optional<planner::PlanOptions> plan = std::nullopt;
};

struct TuneSettings {
  /// Budget for profiling and races together, by the bench's clock. After it, only rounds start that are always needed:
  /// one round of the profile and RaceSettings::min_rounds of each race. It replaces the budgets in `profile` and
  /// `race`.
  std::chrono::milliseconds budget{60'000};
  ProfileSettings profile;
  RaceSettings race;
  /// In place of the options in `profile`, which tune() ignores. Unset: the machine's defaults
  /// (planner::default_options_on). Without counts: races are of equal splits.
  std::optional<planner::PlanOptions> plan = std::nullopt;
  std::optional<planner::Variant> only; ///< plan with this variant alone, even if the model knows others
  std::shared_ptr<const planner::CostModel> known_model =
      nullptr; ///< used instead of profiling; of the bench's machine; shared with the caller
};

/// The fewest measurements that a model can be fitted to: three lengths of each lane, and both lanes together once.
inline constexpr int kMinMeasurementCount = 7;

/// The result of tuning one operator.
struct Tuned {
  planner::Plan plan; ///< the winner, with its validation; "do not cut" when no cut was faster beyond noise
  std::optional<planner::CostModel> model; ///< recalibrated; none where the samples could not be fitted
  Race race;                               ///< the last race
  std::vector<planner::Plan> contenders;   ///< plans in the order of race.contenders
  std::vector<planner::Sample> samples;    ///< samples of the profile, earlier ones included; none with a known model
  std::vector<std::string> notes;          ///< notes of the fit, the recalibration and the races
};

/// Profiles an operator. First leaves out variants that a few runs show to be dominated. Then times both lanes of the
/// other variants, alone and together, over a grid of block lengths. Then, at most eight times, adds lengths: those of
/// the plan that the samples lead to, or lengths between the timed ones where a fitted curve does not follow them.
/// Samples go to `keeper` after every round; the keeper's earlier samples count.
/// Errors: as Bench, Keeper and run_sweep; Cancelled keeps what was measured.
[[nodiscard]] Result<SweepSummary> profile(Bench& bench, const ProfileSettings& settings, Keeper& keeper,
                                           const TuneHooks& hooks = {});

/// THE tuner for the program, host programs, Python and PyTorch. Its steps:
///   model  profiles (earlier samples of `keeper` count) and fits, unless settings.known_model is given.
///   race   plans, checks the contenders' results, and races them and the bench's rivals against serial.
///   learn  recalibrates the model, and races again when the recalibrated model prefers another cut.
///   keep   keeps the model (not a known one), the measurements and the winner. A cut wins only when the whole 95 %
///          interval of its benefit is above zero.
/// Where the samples cannot be fitted, a few plain cuts race without a model, and the winner carries no prediction.
/// Errors: InvalidSpec and UnknownName for the plan's options, before anything runs; as its steps, except CannotFit of
/// the profile's fit; NotFound when the model does not know settings.only; Cancelled keeps samples and models that were
/// complete. Throws SystemError as the bench.
[[nodiscard]] Result<Tuned> tune(Bench& bench, const TuneSettings& settings, Keeper& keeper,
                                 const TuneHooks& hooks = {});

} // namespace mc2::profiler

#pragma GCC visibility pop
