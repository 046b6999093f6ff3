#include "ops/matmul_all_reduce.hpp"

namespace mc2::planner::ops {

OpTraits matmul_all_reduce() noexcept {
  return {
      .kind = OpKind::MatmulAllReduce,
      .name = "matmul_all_reduce",
      .semantics = "every rank computes A[m,k] x B[k,n]; the sum over the ranks ends on all of them",
      .work = Work::Matmul,
      .first_lane = Lane::Compute,
      .has_row_shards = false,
      .has_local_part = false,
      .cut_axis_length = [](const OpSpec& op) { return op.m; },
      .message_bytes_per_row = [](const OpSpec& op) { return op.n * size_bytes(op.dtype); },
  };
}

} // namespace mc2::planner::ops
