#pragma once

#include <functional>
#include <optional>
#include <string>

#include "mc2/profiler/race.hpp"
#include "mc2/profiler/tune.hpp"
#include "mc2/profiler/tune_hooks.hpp"
#include "mc2/store/store.hpp"

#pragma GCC visibility push(default)

namespace mc2::embed {

/// Calls back with a store that nobody else uses meanwhile. May throw where it is closed.
using StoreAccess = std::function<void(const std::function<void(store::Store&)>&)>;

/// A store that is the caller's alone, and outlives the access.
[[nodiscard]] StoreAccess access_to(store::Store& store);

/// What a race measured of a plan, as a store keeps it.
/// @param compute_us, communication_us  medians of the uncut parts
[[nodiscard]] store::Measurement measurement_of(const planner::Plan& plan, const planner::Validation& race,
                                                double compute_us, double communication_us);

/// The same of a contender.
/// @param plan  that raced, with what was predicted of it
[[nodiscard]] store::Measurement measurement_of(const profiler::Contender& contender, const planner::Plan& plan);

/// The same of a plan that was made before, not for the race: with what was predicted of the uncut parts, from which
/// the finder learns how the machine's speed changes.
/// @param now  the model that is predicted with; where it does not know the plan's variant, nothing is added
[[nodiscard]] store::Measurement measurement_of(const profiler::Contender& contender, const planner::Plan& plan,
                                                const planner::CostModel& now);

/// Keeps in a store what tuning finds. Errors: as store::Store.
class StoreKeeper final : public profiler::Keeper {
 public:
  /// @param purpose  what the plan is kept for, store::PlanKey
  StoreKeeper(StoreAccess access, planner::OpSpec op, planner::Fingerprint machine,
              std::string purpose = store::PlanKey{}.purpose);
  /// Of a tuning on these terms: the plan is kept for who asks for its options and variant (finder::tuned_purpose).
  StoreKeeper(StoreAccess access, const profiler::Bench& bench, const profiler::TuneSettings& settings);

  /// Earlier samples do not count - those of one variant, or all - but stay in the store until a profile is whole and
  /// takes their place: what is interrupted loses nothing.
  /// @param variant  as its samples name it; empty: all
  void start_afresh(std::string variant);

  [[nodiscard]] std::vector<planner::Sample> earlier_samples() override;
  [[nodiscard]] Result<void> append_samples(std::span<const planner::Sample> samples) override;
  [[nodiscard]] Result<void> replace_samples(std::span<const planner::Sample> samples) override;
  [[nodiscard]] Result<void> keep_model(const planner::CostModel& model) override;
  [[nodiscard]] Result<void> keep_race(const profiler::Race& race, std::span<const planner::Plan> contenders) override;
  [[nodiscard]] Result<void> keep_plan(const planner::Plan& plan) override;

  /// Of the plan that was kept; empty before.
  [[nodiscard]] const std::string& plan_digest() const noexcept { return plan_digest_; }

 private:
  /// The error of what the body makes of the store.
  template <typename Body>
  [[nodiscard]] Result<void> in_store(const Body& body);

  StoreAccess access_;
  planner::OpSpec op_;
  planner::Fingerprint machine_;
  std::string purpose_;
  std::string plan_digest_;
  std::optional<std::string> afresh_; ///< whose earlier samples do not count; none: all do
};

} // namespace mc2::embed

#pragma GCC visibility pop
