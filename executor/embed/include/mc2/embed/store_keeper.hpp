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

/// Calls the given function with a store that no other thread uses during the call. May throw if the store is closed.
using StoreAccess = std::function<void(const std::function<void(store::Store&)>&)>;

/// Access to a store that only the caller uses. The store must outlive the access.
[[nodiscard]] StoreAccess access_to(store::Store& store);

/// What a race measured of a plan, in the form that a store keeps.
/// @param compute_us, communication_us  medians of the uncut matmul and the uncut collective
[[nodiscard]] store::Measurement measurement_of(const planner::Plan& plan, const planner::Validation& race,
                                                double compute_us, double communication_us);

/// What a race measured of a contender.
/// @param plan  the contender's plan, with its predicted times
[[nodiscard]] store::Measurement measurement_of(const profiler::Contender& contender, const planner::Plan& plan);

/// As above for a plan that was made before the race. The measurement also holds the predicted times of the uncut
/// parts; by comparing them with the measured ones the finder learns how the machine's speed changes.
/// @param now  the model that predicts them; if it does not know the plan's variant, none are added
[[nodiscard]] store::Measurement measurement_of(const profiler::Contender& contender, const planner::Plan& plan,
                                                const planner::CostModel& now);

/// Keeps in a store what tuning finds. Errors: as store::Store.
class StoreKeeper final : public profiler::Keeper {
 public:
  /// @param purpose  the purpose of the kept plan in store::PlanKey
  StoreKeeper(StoreAccess access, planner::OpSpec op, planner::Fingerprint machine, std::string purpose);
  /// For a tuning with these settings: the purpose names their plan options and variant (finder::tuned_purpose).
  StoreKeeper(StoreAccess access, const profiler::Bench& bench, const profiler::TuneSettings& settings);

  /// Makes earlier_samples() leave out the samples of one variant, or all. They stay in the store until a complete
  /// profile replaces them, so that an interrupted tuning loses nothing.
  /// @param variant  the variant's name in its samples; empty: all variants
  void start_afresh(std::string variant);

  [[nodiscard]] std::vector<planner::Sample> earlier_samples() override;
  [[nodiscard]] Result<void> append_samples(std::span<const planner::Sample> samples) override;
  [[nodiscard]] Result<void> replace_samples(std::span<const planner::Sample> samples) override;
  [[nodiscard]] Result<void> keep_model(const planner::CostModel& model) override;
  [[nodiscard]] Result<void> keep_race(const profiler::Race& race, std::span<const planner::Plan> contenders) override;
  [[nodiscard]] Result<void> keep_plan(const planner::Plan& plan) override;

  /// The digest of the plan that was kept; empty if none was.
  [[nodiscard]] const std::string& plan_digest() const noexcept { return plan_digest_; }

 private:
  /// Runs the body with the store and returns its result.
  template <typename Body>
  [[nodiscard]] Result<void> in_store(const Body& body);

  StoreAccess access_;
  planner::OpSpec op_;
  planner::Fingerprint machine_;
  std::string purpose_;
  std::string plan_digest_;
  std::optional<std::string> afresh_; ///< variant whose earlier samples are left out, empty: all; unset: no variant
};

} // namespace mc2::embed

#pragma GCC visibility pop
