#pragma once

#include <string>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"

namespace mc2::testing {

/// A plan for these GPUs that nobody predicted.
inline planner::Plan cuda_plan(const planner::OpSpec& op, const planner::Cut& cut, const planner::Variant& variant) {
  planner::Plan made;
  made.op = op;
  made.cut = cut;
  made.variant = variant;
  made.is_local_first = planner::traits_of(op.kind).has_local_part;
  made.fingerprint = executor::cuda::cuda_backend().fingerprint({});
  return made;
}

} // namespace mc2::testing
