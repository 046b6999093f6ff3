#include "ops/all_gather_matmul.hpp"

#include "ops/shards.hpp"

namespace mc2::planner::ops {

OpTraits all_gather_matmul() noexcept {
  return {
      .kind = OpKind::AllGatherMatmul,
      .name = "all_gather_matmul",
      .semantics = "A[m,k] is sharded by rows; every rank gathers it and computes A[m,k] x B[k,n]",
      .work = Work::Matmul,
      .first_lane = Lane::Communication,
      .has_row_shards = true,
      .has_local_part = true,
      .cut_axis_length = shard_rows,
      .message_bytes_per_unit = sharded_a_bytes,
  };
}

} // namespace mc2::planner::ops
