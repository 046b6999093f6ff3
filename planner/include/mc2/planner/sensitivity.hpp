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
  CommunicationSlowdown = 5,   ///< the communication lane's
  ComputeBlockFixed = 6,       ///< us added to every block of a cut plan on the compute lane
  CommunicationBlockFixed = 7, ///< us, the same on the communication lane
  Rows = 8,                    ///< m of the operator, in steps of the alignment
  Columns = 9,                 ///< n of the operator, the same, where blocks are cut from n
  Imbalance = 10,              ///< what the busiest rank multiplies over the mean, as with_imbalance(): skewed counts
};

[[nodiscard]] std::string_view to_string(Parameter parameter) noexcept;

/// How much a changed decision differs from today's, from the least to the most. Values are served: never renumber.
enum class FlipKind : std::uint8_t {
  OtherLengths = 1, ///< as many blocks, of other lengths or in another order
  OtherCount = 2,   ///< another number of blocks, or another variant
  CutOrUncut = 3,   ///< cut instead of uncut, or the reverse
};

[[nodiscard]] std::string_view to_string(FlipKind kind) noexcept;

/// A value of a parameter from which on another plan is best.
struct Flip {
  FlipKind kind = FlipKind::OtherLengths;
  double value = 0;              ///< of the parameter, in its own unit
  Cut cut;                       ///< best there
  Variant variant;               ///< of that cut
  double best_us = 0;            ///< its makespan there
  std::optional<double> kept_us; ///< makespan there of the plan that was asked about; none for another m or counts
  std::string text;              ///< "communication 1.32x slower: 6 blocks instead of 5 (512 + 5 x 716 rows)"
  bool operator==(const Flip&) const = default;
};

/// One parameter moved in one direction.
struct Excursion {
  double end_value = 0;    ///< the furthest value that was tried
  std::vector<Flip> flips; ///< nearest first, each of a stronger kind than the one before; empty: the plan stays best
  std::optional<double> one_percent_value; ///< from here on keeping the plan costs 1 %; none where it does today
  std::optional<double> end_loss;          ///< kept / best - 1 at end_value
  bool operator==(const Excursion&) const = default;
};

struct ParameterSensitivity {
  Parameter parameter = Parameter::ComputeTime;
  double value = 0; ///< today's: 1 for a factor on times
  std::string unit; ///< "x", "us", "rows" or "columns"; an imbalance is of "x", too
  /// Half-width of the fitted curve's own 90 % interval, where the parameter is a factor on its times: a flip inside
  /// it is a decision that the measurements do not settle.
  double relative_interval = 0;
  Excursion lower, higher;
  std::string text; ///< both directions in one line

  bool operator==(const ParameterSensitivity&) const = default;
};

/// A plan that loses less to the best one is as good.
inline constexpr double kNotableLoss = 0.01;

/// Whether a plan stays the best one when what it was made from was wrong.
struct Sensitivity {
  Cut best_cut; ///< what strategy search decides with the model as it is
  Variant best_variant;
  double best_us = 0;
  double kept_us = 0; ///< makespan of the plan that was asked about, by the same model
  std::vector<ParameterSensitivity>
      parameters; ///< in the order of Parameter; those that the model does not have are left out

  /// What the plan loses to the best one today: 0 when it is the best.
  [[nodiscard]] double loss() const noexcept { return best_us > 0 ? kept_us / best_us - 1 : 0; }
  [[nodiscard]] bool is_best() const noexcept { return kept_us <= best_us; }
  [[nodiscard]] bool is_as_good() const noexcept { return loss() < kNotableLoss; }
  bool operator==(const Sensitivity&) const = default;
};

/// Largest change tried: times and m from 1/4 to 4 times today's, slow-downs from 1 to 4 times today's, added times
/// from 0 to today's plus the serial time, imbalances to 4 or the number of ranks.
inline constexpr double kMaxSensitivityFactor = 4;

/// For every parameter, the smallest change in each direction at which the decision of strategy search changes.
/// Each direction is tried at changes of 0.1 % to 300 % in steps of sqrt(2), which finds decisions that change and
/// change back; where two neighbours differ the change is bisected to 1 % of itself. A decision that comes and goes
/// between two neighbouring steps can be missed. A change applies to every variant alike. Source: docs/cost_model.md
/// §10. Pure and bounded: at most about 70 plans per parameter and direction.
/// @param plan     what was decided, by whatever strategy; its operator must be the model's but for m
/// @param options  strategy and runner_up_count are ignored
/// Errors: as make_plan and predict_cut; Infeasible for more than kMaxBlockCount blocks.
[[nodiscard]] Result<Sensitivity> analyse_sensitivity(const Plan& plan, const CostModel& model,
                                                      const PlanOptions& options, const StopCheck& is_stopped = {});

} // namespace mc2::planner

#pragma GCC visibility pop
