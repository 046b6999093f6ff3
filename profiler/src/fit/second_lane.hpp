#pragma once

#include "mc2/planner/cost_model.hpp"

namespace mc2::profiler {

/// The lane that a kind's blocks pass second. The cost of handing a block over is counted there.
/// @param cost  a planner::VariantCost, which may be const
template <typename Cost>
[[nodiscard]] auto& second_lane(Cost& cost, planner::OpKind kind) {
  return planner::traits_of(kind).first_lane == planner::Lane::Compute ? cost.communication : cost.compute;
}

} // namespace mc2::profiler
