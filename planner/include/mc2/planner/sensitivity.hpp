#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// What a "what if" changes. Values are served: never renumber.
enum class Parameter : std::uint8_t {
  ComputeTime = 1,             ///< factor on every compute time: device speed
  CommunicationTime = 2,       ///< factor on every communication time: link speed
  CommunicationLatency = 3,    ///< us of an empty message: the communication curve's value at size 0
  ComputeSlowdown = 4,         ///< compute lane's duration multiplier while the other lane is busy
  CommunicationSlowdown = 5,   ///< communication lane's duration multiplier while the other lane is busy
  ComputeBlockFixed = 6,       ///< us added to every block of a cut plan on the compute lane
  CommunicationBlockFixed = 7, ///< us added to every block of a cut plan on the communication lane
  Rows = 8,                    ///< m of the operator, in steps of the alignment
  Columns = 9,                 ///< n of the operator, in steps of the alignment, where blocks are cut from n
  Imbalance = 10,              ///< rows of the busiest rank over the mean, with the counts of with_imbalance()
};

[[nodiscard]] std::string_view to_string(Parameter parameter) noexcept;

/// How much a changed decision differs from today's, from the least to the most. Values are served: never renumber.
enum class FlipKind : std::uint8_t {
  OtherLengths = 1, ///< equally many blocks, of other lengths or in another order
  OtherCount = 2,   ///< another number of blocks, or another variant
  CutOrUncut = 3,   ///< cut instead of uncut, or the reverse
};

[[nodiscard]] std::string_view to_string(FlipKind kind) noexcept;

/// The nearest value of a parameter at which another plan is best.
struct Flip {
  FlipKind kind = FlipKind::OtherLengths;
  double value = 0;              ///< value of the parameter, in its own unit
  Cut cut;                       ///< the best cut at `value`
  Variant variant;               ///< the variant of that cut
  double best_us = 0;            ///< makespan of that cut at `value`
  std::optional<double> kept_us; ///< the given plan's makespan at `value`; none for another m, n or counts
  std::string text;              ///< "communication 1.32x slower: 6 blocks instead of 5 (512 + 5 x 716 rows)"
  bool operator==(const Flip&) const = default;
};

/// One parameter moved in one direction.
struct Excursion {
  double end_value = 0;    ///< the furthest value that was tried
  std::vector<Flip> flips; ///< nearest first, each of a stronger kind than the one before; empty: the plan stays best
  std::optional<double> one_percent_value; ///< where keeping the plan begins to cost 1 %; none if today or never
  std::optional<double> end_loss;          ///< kept / best - 1 at end_value
  bool operator==(const Excursion&) const = default;
};

struct ParameterSensitivity {
  Parameter parameter = Parameter::ComputeTime;
  double value = 0; ///< today's value; 1 for a factor on times
  std::string unit; ///< "x" for factors and imbalances, "us", "rows" or "columns"
  /// CostCurve::relative_interval of the curve whose times the parameter scales, 0 for other parameters. A flip inside
  /// this interval is a decision that the measurements do not settle.
  double relative_interval = 0;
  Excursion lower, higher;
  std::string text; ///< both directions in one line

  bool operator==(const ParameterSensitivity&) const = default;
};

/// A plan that loses less than this to the best one counts as equally good.
inline constexpr double kNotableLoss = 0.01;

/// Whether a plan stays the best one if a parameter of its model or operator is another than assumed.
struct Sensitivity {
  Cut best_cut; ///< what strategy search decides with the model as it is
  Variant best_variant;
  double best_us = 0;
  double kept_us = 0; ///< makespan of the plan that was asked about, by the same model
  std::vector<ParameterSensitivity>
      parameters; ///< in the order of Parameter; parameters that the model does not have are left out

  /// What the plan loses to the best one today: 0 when it is the best.
  [[nodiscard]] double loss() const noexcept { return best_us > 0 ? kept_us / best_us - 1 : 0; }
  [[nodiscard]] bool is_best() const noexcept { return kept_us <= best_us; }
  [[nodiscard]] bool is_as_good() const noexcept { return loss() < kNotableLoss; }
  bool operator==(const Sensitivity&) const = default;
};

/// Largest change that is tried: times, m and n range from 1/4 to 4 times today's value, slow-downs from 1 to 4 times
/// today's, added times from 0 to today's plus the serial time, imbalances up to 4 or the number of ranks.
inline constexpr double kMaxSensitivityFactor = 4;

/// For every parameter, the smallest change in each direction at which the decision of strategy search changes.
/// Changes of 0.1 % to 300 % are tried in steps of sqrt(2), so that a decision that changes and changes back is found.
/// Where two neighbouring steps differ, the change is bisected to 1 % of itself. A decision that comes and goes between
/// two neighbouring steps can be missed. A change applies to every variant. Source: docs/cost_model.md §10. Pure and
/// bounded: at most about 70 plans per parameter and direction.
/// @param plan     the decision, by any strategy; its operator may differ from the model's only as make_plan allows
/// @param options  strategy and runner_up_count are ignored
/// Errors: as make_plan and predict_cut; Infeasible for more than kMaxBlockCount blocks.
[[nodiscard]] Result<Sensitivity> analyse_sensitivity(const Plan& plan, const CostModel& model,
                                                      const PlanOptions& options, const StopCheck& is_stopped = {});

} // namespace mc2::planner

#pragma GCC visibility pop
