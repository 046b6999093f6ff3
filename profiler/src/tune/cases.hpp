#pragma once

#include <optional>
#include <span>

#include "mc2/profiler/tune.hpp"

namespace mc2::profiler {

/// A case of a variant as a sweep takes it, named for people. Errors: as Bench::prepare_case.
[[nodiscard]] Result<SweepCase> make_case(Bench& bench, const ProfileCase& one, const planner::Variant& variant);

/// What a sample is of.
[[nodiscard]] ProfileCase case_of(const planner::Sample& sample);

/// Hands samples to a keeper while a sweep runs, which ends when one could not be kept.
class KeepingSamples {
 public:
  KeepingSamples(Keeper& keeper, const TuneHooks& hooks) : keeper_(keeper), hooks_(hooks) {}

  void append(std::span<const planner::Sample> samples);
  [[nodiscard]] bool is_cancelled() const;
  /// The first that the keeper answered.
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

 private:
  Keeper& keeper_;
  const TuneHooks& hooks_;
  std::optional<Error> error_;
};

} // namespace mc2::profiler
