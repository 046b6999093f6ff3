#include "ops/matmul_reduce_scatter.hpp"

namespace mc2::planner::ops {

OpTraits matmul_reduce_scatter() noexcept {
  return {
      .kind = OpKind::MatmulReduceScatter,
      .name = "matmul_reduce_scatter",
      .semantics = "every rank computes A[m,k] x B[k,n]; rank r keeps its m/ranks rows of the sum over the ranks",
      .first_lane = Lane::Compute,
      .has_row_shards = true,
      .has_local_part = false,
      .cut_axis_length = [](const OpSpec& op) { return op.m / op.world_size; },
      .message_bytes_per_row = [](const OpSpec& op) { return op.world_size * op.n * size_bytes(op.dtype); },
  };
}

} // namespace mc2::planner::ops
