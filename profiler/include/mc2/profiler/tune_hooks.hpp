#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/profile.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// How far a step of the tuning is.
struct TuneProgress {
  std::string label;                      ///< of the step, "profile matmul_all_reduce m=1024 ..."
  double fraction = 0;                    ///< of the step's expected work, 0..1
  std::chrono::milliseconds remaining{0}; ///< estimate
  std::string detail;                     ///< "12 of 48 cases settled"
  /// Until the budget of the whole tuning is spent; not of a step by itself.
  std::optional<std::chrono::milliseconds> budget_left = std::nullopt;
};

/// Whom tuning tells, and who may stop it. Each may be empty. Called on the tuner's thread.
struct TuneHooks {
  std::function<void(const TuneProgress&)> on_progress;
  std::function<void(const std::string&)> on_line; ///< one line for people: what was decided, and why
  std::function<bool()> is_cancelled;              ///< asked between runs
};

struct Race;

/// Keeps what tuning finds, as soon as it is complete; the one below keeps nothing. What cannot be kept ends the
/// tuning with that error.
class Keeper {
 public:
  virtual ~Keeper() = default;

  /// Samples of the operator and machine from interrupted or earlier work; they count.
  [[nodiscard]] virtual std::vector<planner::Sample> earlier_samples();
  [[nodiscard]] virtual Result<void> append_samples(std::span<const planner::Sample> samples);
  /// All of them, outliers marked.
  [[nodiscard]] virtual Result<void> replace_samples(std::span<const planner::Sample> samples);
  [[nodiscard]] virtual Result<void> keep_model(const planner::CostModel& model);
  /// @param contenders  in the order of race.contenders
  [[nodiscard]] virtual Result<void> keep_race(const Race& race, std::span<const planner::Plan> contenders);
  [[nodiscard]] virtual Result<void> keep_plan(const planner::Plan& plan);
};

} // namespace mc2::profiler

#pragma GCC visibility pop
