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

/// Those that the backend proposes, and those that it takes when they are named.
inline std::vector<planner::Variant> all_cuda_variants(const planner::OpSpec& op, const executor::CommunicatorOptions& options) {
  const auto& backend = executor::cuda::cuda_backend();
  std::vector<planner::Variant> variants = backend.variants(op, options);
  for (const char* name : {"tile_store"}) {
    const planner::Variant named{name, {{"slices", std::to_string(op.world_size)}}};
    if (backend.check_variant(op, options, named)) variants.push_back(named);
  }
  return variants;
}

} // namespace mc2::testing
