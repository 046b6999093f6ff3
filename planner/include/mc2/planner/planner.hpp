#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/routing.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// Which of the recipe's three lower limits sets the short block: its text says the smallest, its worked example
/// uses the largest (docs/cost_model.md §3).
enum class ShortBlockRule : std::uint8_t { Largest = 1, Smallest = 2 };

[[nodiscard]] std::string_view to_string(ShortBlockRule rule) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<ShortBlockRule> parse_short_block_rule(std::string_view text);

inline constexpr std::int64_t kMaxBlockCount = 1024;
inline constexpr int kMaxRunnerUpCount = 100;
inline constexpr double kMinObjectiveQuantile = 0.5, kMaxObjectiveQuantile = 0.999;
inline constexpr double kMinContention = 1, kMaxContention = 10;

/// How many times longer a lane takes while the other one is busy: kMinContention to kMaxContention.
struct LaneContention {
  double compute = 1, communication = 1;
  bool operator==(const LaneContention&) const = default;
};
/// "1.2" of both lanes, or "1.1,1.3" of compute and communication. Errors: InvalidSpec.
[[nodiscard]] Result<LaneContention> parse_contention(std::string_view text);

struct PlanOptions {
  std::string strategy = "search";
  std::int64_t alignment = 128;      ///< long blocks are multiples of this many rows
  std::int64_t min_block_rows = 128; ///< no block of a cut plan is shorter
  std::int64_t max_block_count = 64;
  int runner_up_count = 5;
  /// What is minimised: 0.5 the expected makespan; above, the makespan that is exceeded with probability 1 - quantile
  /// by the predicted interval (docs/cost_model.md §5).
  double objective_quantile = 0.5;
  /// Cut only when the gain over not cutting exceeds what the curves' intervals can explain.
  bool require_significant_gain = true;
  /// The recipe's bandwidth contention factor, where `contention` says nothing; strategy formula only.
  double formula_contention = kPublishedContention;
  ShortBlockRule formula_short_block = ShortBlockRule::Largest;
  std::optional<LaneContention> contention = std::nullopt; ///< in place of the model's slow-downs
  std::optional<double> block_overhead_us =
      std::nullopt; ///< of every block on each lane, in place of the model's fixed costs
  /// What the ranks send each other: every time is of the rank that takes longest. Several tables, one behind the
  /// other: the cut whose makespan is least in their mean, or, with another objective_quantile than 0.5, in that
  /// quantile of them; the plan's counts and times are those of the table nearest to that. Strategy search only.
  RowCounts counts = {};

  [[nodiscard]] bool has_assumptions() const noexcept { return contention || block_overhead_us; }
  /// Errors: InvalidSpec naming the option; UnknownName for the strategy.
  [[nodiscard]] Result<void> validate() const;
  bool operator==(const PlanOptions&) const = default;
};

/// Every strategy's name, in order of preference.
[[nodiscard]] std::span<const std::string_view> strategy_names() noexcept;

/// Asked from time to time by what may take long: whether to give up. Once it says so, it goes on saying so. Empty:
/// never.
using StopCheck = std::function<bool()>;

/// Decides how to cut `op` on the machine that `model` describes. Pure: same arguments, same plan, to the bit.
/// Errors: InvalidSpec (op, options, model), UnknownName (strategy), OutOfRange (n, k, dtype, kind or ranks differ
/// from the model's), Infeasible (strategy formula cannot cut this shape and says which step failed), Cancelled
/// (is_stopped said so).
[[nodiscard]] Result<Plan> make_plan(const OpSpec& op, const CostModel& model, const PlanOptions& options,
                                     const StopCheck& is_stopped = {});

/// A question whose assumptions of contention and block overhead stand in its model, in place of the model's own. The
/// recipe's factor becomes the larger of both lanes'.
struct Assumed {
  CostModel model;
  PlanOptions options; ///< without assumptions
};
[[nodiscard]] Assumed assume(CostModel model, PlanOptions options);

/// Predicted makespans in us of many cuts of one variant: predict_cut() of each, without the plans around them.
/// Errors: as predict_cut.
[[nodiscard]] Result<std::vector<double>> predict_makespans(const OpSpec& op, const CostModel& model,
                                                            const Variant& variant, std::span<const Cut> cuts);

/// What a cut is predicted to take, and its blocks on each lane together.
struct LaneTimes {
  double makespan_us = 0, compute_us = 0, communication_us = 0;

  [[nodiscard]] double blocks_us(Lane lane) const noexcept {
    return lane == Lane::Compute ? compute_us : communication_us;
  }
};
/// Errors: as predict_cut.
[[nodiscard]] Result<LaneTimes> predict_lane_times(const OpSpec& op, const CostModel& model, const Variant& variant,
                                                   const Cut& cut);

/// How a cut's makespan answers to the time that blocks of one length take on one lane.
struct LengthSensitivity {
  std::int64_t rows = 0;
  Lane lane = Lane::Compute;
  double share = 0;      ///< relative change of the makespan over that of the blocks' time
  double lane_share = 0; ///< of the undisturbed time of all of the lane's blocks
};
/// One for each length and lane. Errors: as predict_cut.
[[nodiscard]] Result<std::vector<LengthSensitivity>> length_sensitivities(const OpSpec& op, const CostModel& model,
                                                                          const Variant& variant, const Cut& cut);

/// Predicts a cut that the caller chose. The plan's strategy is "given" and it has no runners-up.
/// @param counts as PlanOptions::counts
/// Errors: as make_plan, and InvalidSpec when the blocks are not positive or do not sum to the cut axis.
[[nodiscard]] Result<Plan> predict_cut(const OpSpec& op, const CostModel& model, const Variant& variant, const Cut& cut,
                                       const RowCounts& counts = {});
/// The same by the variant that is predicted fastest for this cut; of equals, the model's first.
[[nodiscard]] Result<Plan> predict_cut(const OpSpec& op, const CostModel& model, const Cut& cut,
                                       const RowCounts& counts = {});

/// The plan that says "do not cut": the variant's uncut parts one after the other, Schedule::Serial. Its times are
/// serial's of the model. Errors: as predict_cut.
[[nodiscard]] Result<Plan> serial_plan(const OpSpec& op, const CostModel& model, const Variant& variant,
                                       const RowCounts& counts = {});

/// The caller's blocks, where there is no model to predict them by: without timeline, its times 0.
/// @param schedule  unset: overlapping_schedule()
/// Errors: InvalidSpec as predict_cut, and for a serial schedule of several blocks.
[[nodiscard]] Result<Plan> unpredicted_plan(const OpSpec& op, const Fingerprint& machine, const Variant& variant,
                                            const Cut& cut, std::optional<Schedule> schedule = std::nullopt);

/// predict_cut by the model anchored at the uncut parts' times: what the cut takes on a machine whose speed has drifted
/// since it was profiled. The interval is the model's anchored_interval where it has one.
/// Errors: as predict_cut, and InvalidSpec when a time is not positive and finite.
[[nodiscard]] Result<Plan> predict_anchored(const OpSpec& op, const CostModel& model, const Variant& variant,
                                            const Cut& cut, double compute_us, double communication_us);

/// Every cut of the short/long family: uncut, n equal blocks, and a short block first or last with n >= 1 long ones;
/// long blocks are multiples of the alignment, the short one takes the rest of a ragged length.
/// Errors: InvalidSpec as make_plan.
[[nodiscard]] Result<std::vector<Cut>> enumerate_cuts(const OpSpec& op, const PlanOptions& options);

} // namespace mc2::planner

#pragma GCC visibility pop
