#pragma once

#include <string>
#include <vector>

#include "mc2/planner/sensitivity.hpp"

namespace mc2::planner {

/// A question for the planner.
struct Question {
  OpSpec op;
  CostModel model;
  RowCounts counts;
};

/// One parameter of a model that can be turned to another value.
struct Knob {
  Parameter parameter = Parameter::ComputeTime;
  double value = 1;             ///< today's value
  double reach = 0;             ///< largest growth of an added time, in us, or an imbalance; others ignore it
  std::int64_t step = 1;        ///< step between values of m or n
  double relative_interval = 0; ///< of the curve whose times the parameter scales
  std::string unit;
  double least = 1; ///< smallest m or n for which the model answers

  /// The value after a relative change of 0 .. kMaxSensitivityFactor - 1, upwards or downwards; never an illegal one.
  [[nodiscard]] double at(double change, bool is_up) const;
  /// Sets the parameter to `value`, in every variant alike. Errors: as with_imbalance().
  [[nodiscard]] Result<void> turn(Question& question, double value) const;
  /// "1.32x slower", "26.8 us".
  [[nodiscard]] std::string value_text(double value) const;
  /// "communication 1.32x slower", "latency of a message 26.8 us instead of 14.8 us".
  [[nodiscard]] std::string change_text(double value) const;
};

/// Whether the parameter is a size of the operator rather than of the model.
[[nodiscard]] constexpr bool is_size(Parameter parameter) noexcept {
  return parameter == Parameter::Rows || parameter == Parameter::Columns;
}

/// Whether another value of the parameter gives an operator whose blocks have other lengths.
[[nodiscard]] constexpr bool changes_lengths(Parameter parameter) noexcept {
  return is_size(parameter) || parameter == Parameter::Imbalance;
}

/// Every parameter that the plan's variant in the model has. The model must know the variant.
[[nodiscard]] std::vector<Knob> knobs_of(const Plan& plan, const CostModel& model, const PlanOptions& options);

} // namespace mc2::planner
