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

/// Which of the recipe's three lower limits sets the short block. The recipe's text says the smallest, but its worked
/// example uses the largest (docs/cost_model.md §3).
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
/// Reads "1.2" for both lanes, or "1.1,1.3" for compute and communication. Errors: InvalidSpec.
[[nodiscard]] Result<LaneContention> parse_contention(std::string_view text);

struct PlanOptions {
  std::string strategy = "search";
  std::int64_t alignment = 128;      ///< long blocks are multiples of this many rows
  std::int64_t min_block_rows = 128; ///< shortest block of a cut plan
  std::int64_t max_block_count = 64;
  int runner_up_count = 5;
  /// What is minimised. At 0.5, the expected makespan; above, the makespan that is exceeded with probability
  /// 1 - quantile according to the predicted interval (docs/cost_model.md §5).
  double objective_quantile = 0.5;
  /// Cut only when the gain over not cutting exceeds what the curves' intervals can explain.
  bool require_significant_gain = true;
  /// The recipe's bandwidth contention factor, used unless `contention` is set; strategy formula only.
  double formula_contention = kPublishedContention;
  ShortBlockRule formula_short_block = ShortBlockRule::Largest;
  std::optional<LaneContention> contention = std::nullopt; ///< replaces the model's slow-downs, but not those below 1
  std::optional<double> block_overhead_us =
      std::nullopt; ///< time of every block on each lane; replaces the model's fixed costs
  /// Rows that the ranks send each other. Every time is then that of the rank that takes longest. The counts may be
  /// several tables, one behind the other: the plan then has the cut with the least mean of the tables' makespans or,
  /// with another objective_quantile than 0.5, the least such quantile of them. The plan's counts and times are those
  /// of the table whose makespan is nearest to that value. Strategy search only.
  RowCounts counts = {};

  [[nodiscard]] bool has_assumptions() const noexcept { return contention || block_overhead_us; }
  /// Errors: InvalidSpec naming the option; UnknownName for the strategy.
  [[nodiscard]] Result<void> validate() const;
  bool operator==(const PlanOptions&) const = default;
};

/// Every strategy's name, in order of preference.
[[nodiscard]] std::span<const std::string_view> strategy_names() noexcept;

/// Long computations call it from time to time and stop once it returns true; from then on it must always return true.
/// Empty: never stop.
using StopCheck = std::function<bool()>;

/// Decides how to cut `op` on the machine that `model` describes. Pure: same arguments, same plan, to the bit.
/// Errors: InvalidSpec (op, options, model), Stale (CostModel::validate), UnknownName (strategy), OutOfRange (the model
/// has other block costs, or gives a plan that Plan::validate refuses), Infeasible (strategy formula cannot cut this
/// shape and says which step failed; strategy wave_groups does not cover the kind; no variant exchanges the unequal
/// splits of the counts), Cancelled (is_stopped returned true).
[[nodiscard]] Result<Plan> make_plan(const OpSpec& op, const CostModel& model, const PlanOptions& options,
                                     const StopCheck& is_stopped = {});

/// A question whose assumed contention and block overhead have been written into its model, in place of the model's own
/// values. formula_contention becomes the larger of both lanes' assumed factors.
struct Assumed {
  CostModel model;
  PlanOptions options; ///< without assumptions
};
[[nodiscard]] Assumed assume(CostModel model, PlanOptions options);

/// "assumed as asked: slow-downs of 1.2 (compute) and 1.4 (communication) and 15 us per block"; empty without
/// assumptions. make_plan() ends a plan's reason with it.
/// @param plan  as predicted with these options
[[nodiscard]] std::string assumptions_text(const PlanOptions& options, const Plan& plan);

/// Predicted makespans in us of many cuts of one variant, each as predict_cut() gives, without making the plans.
/// Errors: as predict_cut.
[[nodiscard]] Result<std::vector<double>> predict_makespans(const OpSpec& op, const CostModel& model,
                                                            const Variant& variant, std::span<const Cut> cuts);

/// The predicted makespan of a cut, and the time of all its blocks on each lane.
struct LaneTimes {
  double makespan_us = 0, compute_us = 0, communication_us = 0;

  [[nodiscard]] double blocks_us(Lane lane) const noexcept {
    return lane == Lane::Compute ? compute_us : communication_us;
  }
};
/// Errors: as predict_cut.
[[nodiscard]] Result<LaneTimes> predict_lane_times(const OpSpec& op, const CostModel& model, const Variant& variant,
                                                   const Cut& cut);

/// How a cut's makespan reacts to the time that blocks of one length take on one lane.
struct LengthSensitivity {
  std::int64_t rows = 0;
  Lane lane = Lane::Compute;
  double share = 0;      ///< relative change of the makespan over the relative change of these blocks' time
  double lane_share = 0; ///< part that these blocks have in the undisturbed time of all the lane's blocks
};
/// One entry for each length and lane. Errors: as predict_cut.
[[nodiscard]] Result<std::vector<LengthSensitivity>> length_sensitivities(const OpSpec& op, const CostModel& model,
                                                                          const Variant& variant, const Cut& cut);

/// Predicts a cut that the caller chose. The plan's strategy is "given" and it has no runners-up.
/// @param counts as PlanOptions::counts, one table
/// Errors: as make_plan, UnknownName for a variant that the model does not have, and InvalidSpec for blocks that are
/// not positive or do not sum to the cut axis.
[[nodiscard]] Result<Plan> predict_cut(const OpSpec& op, const CostModel& model, const Variant& variant, const Cut& cut,
                                       const RowCounts& counts = {});
/// As above, with the variant that is predicted fastest for this cut; of equals, the first one in the model.
[[nodiscard]] Result<Plan> predict_cut(const OpSpec& op, const CostModel& model, const Cut& cut,
                                       const RowCounts& counts = {});

/// The plan that says "do not cut", with Schedule::Serial: the uncut parts run one after the other. Its makespan is the
/// serial time that the model predicts. Errors: as predict_cut.
[[nodiscard]] Result<Plan> serial_plan(const OpSpec& op, const CostModel& model, const Variant& variant,
                                       const RowCounts& counts = {});

/// A plan with the caller's blocks where there is no model to predict them. It has no timeline, and its times are 0.
/// @param schedule  unset: overlapping_schedule()
/// Errors: InvalidSpec as validate_cut, for an illegal op, and for a serial schedule of several blocks.
[[nodiscard]] Result<Plan> unpredicted_plan(const OpSpec& op, const Fingerprint& machine, const Variant& variant,
                                            const Cut& cut, std::optional<Schedule> schedule = std::nullopt);

/// Every cut of the short/long family: uncut, n equal blocks, and a short block first or last with n >= 1 long ones;
/// long blocks are multiples of the alignment, the short one takes the rest of a ragged length.
/// Errors: InvalidSpec as make_plan.
[[nodiscard]] Result<std::vector<Cut>> enumerate_cuts(const OpSpec& op, const PlanOptions& options);

} // namespace mc2::planner

#pragma GCC visibility pop
