#pragma once

#include <string>
#include <vector>

#include "mc2/planner/sensitivity.hpp"

namespace mc2::planner {

/// What a plan is asked for.
struct Question {
  OpSpec op;
  CostModel model;
  RowCounts counts;
};

/// One parameter of a model that can be turned to another value.
struct Knob {
  Parameter parameter = Parameter::ComputeTime;
  double value = 1;             ///< today's
  double reach = 0;             ///< by which an added time, in us, or an imbalance grows at most; others ignore it
  std::int64_t step = 1;        ///< between values of m or n
  double relative_interval = 0; ///< of the curve whose times it scales
  std::string unit;
  double least = 1; ///< size below which the operator is another one to the model

  /// The value after a relative change of 0 .. kMaxSensitivityFactor - 1, upwards or downwards; never an illegal one.
  [[nodiscard]] double at(double change, bool is_up) const;
  /// Changes every variant alike. Errors: as with_imbalance().
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

/// Whether another value is of an operator whose blocks have other lengths.
[[nodiscard]] constexpr bool changes_lengths(Parameter parameter) noexcept {
  return is_size(parameter) || parameter == Parameter::Imbalance;
}

/// Every parameter that the plan's variant in the model has. The model must know the variant.
[[nodiscard]] std::vector<Knob> knobs_of(const Plan& plan, const CostModel& model, const PlanOptions& options);

} // namespace mc2::planner
