#include "ops/all_to_all_matmul.hpp"

namespace mc2::planner::ops {

OpTraits all_to_all_matmul() noexcept {
  return {
      .kind = OpKind::AllToAllMatmul,
      .name = "all_to_all_matmul",
      .semantics = "every rank sends the q-th m/ranks rows of A[m,k] to rank q and multiplies what it gets by B[k,n]",
      .first_lane = Lane::Communication,
      .has_row_shards = true,
      .has_local_part = true,
      .cut_axis_length = [](const OpSpec& op) { return op.m / op.world_size; },
      .message_bytes_per_row = [](const OpSpec& op) { return op.world_size * op.k * size_bytes(op.dtype); },
  };
}

} // namespace mc2::planner::ops
