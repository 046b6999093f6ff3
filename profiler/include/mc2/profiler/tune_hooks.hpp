#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/sweep.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// Callbacks that report the tuning's progress and may cancel it. Each may be empty. Called on the tuner's thread.
struct TuneHooks {
  std::function<void(const Progress&)> on_progress;
  std::function<void(const std::string&)> on_line; ///< one line for people: what was decided, and why
  std::function<void(const std::string&)> on_race; ///< as on_line: which cuts race, and the plan in the end
  std::function<bool()> is_cancelled;              ///< asked before each pair of runs and each check
};

struct Race;

/// Keeps the results of tuning as soon as each is complete. This base class keeps nothing. An error of a function ends
/// the tuning with that error.
class Keeper {
 public:
  virtual ~Keeper() = default;

  /// Samples of this operator and machine from interrupted or earlier work. The profile counts them as measured.
  [[nodiscard]] virtual std::vector<planner::Sample> earlier_samples();
  [[nodiscard]] virtual Result<void> append_samples(std::span<const planner::Sample> samples);
  /// Replaces all kept samples by these, whose outliers are marked.
  [[nodiscard]] virtual Result<void> replace_samples(std::span<const planner::Sample> samples);
  [[nodiscard]] virtual Result<void> keep_model(const planner::CostModel& model);
  /// @param contenders  in the order of race.contenders
  [[nodiscard]] virtual Result<void> keep_race(const Race& race, std::span<const planner::Plan> contenders);
  [[nodiscard]] virtual Result<void> keep_plan(const planner::Plan& plan);
};

} // namespace mc2::profiler

#pragma GCC visibility pop
