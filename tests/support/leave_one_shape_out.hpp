#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <vector>

#include "mc2/planner/transfer.hpp"

namespace mc2::testing {

/// Errors of a model that is predicted from models of other shapes, for one component.
struct TransferError {
  planner::OpSpec target;
  planner::OpSpec source;
  planner::Component component = planner::Component::Matmul;
  double median_relative = 0; ///< median of |transferred / own - 1| over sizes in the target's measured range
  double worst_relative = 0;
  double covered = 0; ///< share of these sizes at which the own time lies in the transferred interval
};

inline TransferError compare(const planner::Transfer& transferred, const planner::CostModel& own,
                             planner::Component component) {
  constexpr int kSizeCount = 16;
  const auto lane = [component](const planner::VariantCost& cost) -> const planner::LaneCost& {
    return component == planner::Component::Matmul ? cost.compute : cost.communication;
  };
  const planner::CostCurve& truth = lane(own.variants.front()).curve;
  const planner::CostCurve& guess = lane(transferred.model.variants.front()).curve;
  const double smallest = std::max(truth.valid_min_x, truth.valid_max_x * 1e-6);
  std::vector<double> errors;
  int covered_count = 0;
  for (int i = 0; i < kSizeCount; ++i) {
    const double x = smallest * std::pow(truth.valid_max_x / smallest, i / (kSizeCount - 1.0));
    const double guess_us = guess.time_us(x), own_us = truth.time_us(x);
    if (!(own_us > 0)) continue;
    errors.push_back(std::abs(guess_us / own_us - 1));
    covered_count += std::abs(own_us - guess_us) <= guess_us * guess.relative_interval ? 1 : 0;
  }
  TransferError result{own.op, transferred.source, component};
  if (errors.empty()) return result;
  std::sort(errors.begin(), errors.end());
  result.median_relative = (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
  result.worst_relative = errors.back();
  result.covered = covered_count / static_cast<double>(errors.size());
  return result;
}

/// Leave-one-shape-out: transfer_from_nearest predicts every model from all models of other (n, k); compare() compares
/// the result with the model's own curves at 16 sizes of equal ratio. Only the first variant of each model counts.
/// Returns two entries, one per component, for each model that can be predicted.
/// Source: leave-one-group-out cross-validation (Stone, 1974).
inline std::vector<TransferError> leave_one_shape_out(std::span<const planner::CostModel> models) {
  std::vector<TransferError> errors;
  for (const planner::CostModel& own : models) {
    if (!own.validate()) continue;
    std::vector<planner::CostModel> others;
    std::copy_if(models.begin(), models.end(), std::back_inserter(others),
                 [&](const planner::CostModel& other) { return other.op.n != own.op.n || other.op.k != own.op.k; });
    const auto transferred = planner::transfer_from_nearest(others, own.op, own.fingerprint);
    if (!transferred) continue;
    for (const planner::Component component : {planner::Component::Matmul, planner::Component::Collective})
      errors.push_back(compare(transferred.value(), own, component));
  }
  return errors;
}

} // namespace mc2::testing
