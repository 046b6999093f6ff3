#pragma once

#include <optional>
#include <span>

#include "mc2/profiler/tune.hpp"

namespace mc2::profiler {

/// Errors: as PlanOptions::validate; InvalidSpec for counts, because what is timed are equal splits.
[[nodiscard]] Result<void> check_plan_options(const planner::PlanOptions& options);

/// Makes the sweep case of one profile case and variant, named for people. Errors: as Bench::prepare_case.
[[nodiscard]] Result<SweepCase> make_case(Bench& bench, const ProfileCase& one, const planner::Variant& variant);

/// The profile case that a sample belongs to.
[[nodiscard]] ProfileCase case_of(const planner::Sample& sample);

/// Hands samples to a keeper while a sweep runs. is_cancelled() ends the sweep when the keeper refused some.
class KeepingSamples {
 public:
  KeepingSamples(Keeper& keeper, const TuneHooks& hooks) : keeper_(keeper), hooks_(hooks) {}

  void append(std::span<const planner::Sample> samples);
  [[nodiscard]] bool is_cancelled() const;
  /// The keeper's first error; empty while there is none.
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

 private:
  Keeper& keeper_;
  const TuneHooks& hooks_;
  std::optional<Error> error_;
};

} // namespace mc2::profiler
