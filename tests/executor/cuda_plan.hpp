#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/runtime/machine.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"
#include "support/gpus.hpp"

namespace mc2::testing {

/// Whether ranks share a device (MC2_RANKS_PER_DEVICE). Tests that need NCCL or two devices are then skipped.
inline bool do_ranks_share_a_device() { return executor::cuda::ranks_per_device() > 1; }
inline constexpr const char* kNeedsNccl = "NCCL takes a device only once, and ranks share one here";
inline constexpr const char* kNeedsTwoDevices = "ranks share a device here";

/// A plan for this machine's GPUs, without predictions.
inline planner::Plan cuda_plan(const planner::OpSpec& op, const planner::Cut& cut, const planner::Variant& variant) {
  planner::Plan made;
  made.op = op;
  made.cut = cut;
  made.variant = variant;
  made.schedule =
      planner::traits_of(op.kind).has_local_part ? planner::Schedule::LocalFirst : planner::Schedule::Pipelined;
  made.fingerprint = executor::cuda::cuda_backend().fingerprint({});
  return made;
}

/// The persistent kernel with at most `ctas` thread blocks, and most of the other SMs for the matmul.
inline planner::Variant persistent(int ctas) {
  constexpr int kFewestLeft = 4, kLeft = 12;
  const int sm_count = executor::cuda::sm_count();
  return {"persistent",
          {{"ctas", std::to_string(std::min(ctas, std::max(1, sm_count - kFewestLeft)))},
           {"gemm_sms", std::to_string(std::max(1, sm_count - kLeft))}}};
}

/// All variants of the cuda backend. For simulated GPUs, which know neither thread blocks nor SMs nor the library's
/// tiles, only one of each group of variants that differ in nothing else.
inline std::vector<planner::Variant> tried_variants(const planner::OpSpec& op,
                                                    const executor::CommunicatorOptions& options = {}) {
  auto variants = executor::cuda::cuda_backend().variants(op, options);
  if (!are_gpus_simulated()) return variants;
  std::set<std::string> met;
  std::erase_if(variants, [&](planner::Variant variant) {
    for (const char* setting : {"ctas", "gemm_sms"}) variant.fields.erase(setting);
    if (variant.name != "tile_store") variant.fields.erase("tile");
    return !met.insert(variant.text()).second;
  });
  return variants;
}

} // namespace mc2::testing
