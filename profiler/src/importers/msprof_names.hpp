#pragma once

#include <string_view>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::profiler {

/// The work of an operator in an msprof log, found from its type or, where that is missing, its name. A fused operator
/// has two kernels: FusedMatmul on the stream that computes, and KernelOfCollective on the AI CPU, which communicates.
enum class MsprofWork : std::uint8_t {
  Other,
  Matmul,
  FusedMatmul,
  OtherMatmul,   ///< batched, grouped or quantised, also fused with a collective
  MatmulAndMore, ///< does other work, too: MatmulAllReduceAddRmsNorm
  Collective,
  OtherCollective,
  KernelOfCollective
};

struct MsprofOperator {
  MsprofWork work = MsprofWork::Other;
  planner::Collective collective = planner::Collective::AllReduce;
  planner::Lane first_lane = planner::Lane::Compute; ///< of a fused operator
};

/// The question that must be answered before runs of fused operators can be taken, and why they are left out until
/// then.
inline constexpr std::string_view kAskBlocks =
    "which blocks the fused operators ran (--blocks 512,4x896), to take them as measured cuts";
inline constexpr std::string_view kUnknownCut = "a fused operator whose cut is not known";

/// Why runs of MsprofWork::OtherMatmul and MatmulAndMore are left out.
inline constexpr std::string_view kOtherMatmul = "a batched, grouped or quantised matmul";
inline constexpr std::string_view kMatmulAndMore = "does other work beside its matmul and collective";

/// @param type  e.g. "MatMulV3", "hcom_allReduce_"; may be empty
/// @param name  e.g. "hcom_allReduce__428_0_1"
[[nodiscard]] MsprofOperator find_msprof_operator(std::string_view type, std::string_view name);

/// Whether HCCL counts one rank's part as the size: what one rank sends in all-gather, what it receives in
/// reduce-scatter, what it sends to one peer in all-to-all.
[[nodiscard]] constexpr bool hccl_counts_part(planner::Collective collective) noexcept {
  return collective != planner::Collective::AllReduce;
}

} // namespace mc2::profiler
