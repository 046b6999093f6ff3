#include "ops/all_to_all_matmul.hpp"

#include "ops/shards.hpp"

namespace mc2::planner::ops {

OpTraits all_to_all_matmul() noexcept {
  return {
      .kind = OpKind::AllToAllMatmul,
      .name = "all_to_all_matmul",
      .semantics = "every rank sends the q-th m/ranks rows of A[m,k] to rank q and multiplies what it gets by B[k,n]",
      .work = Work::Matmul,
      .first_lane = Lane::Communication,
      .has_row_shards = true,
      .has_local_part = true,
      .cut_axis_length = shard_rows,
      .message_bytes_per_unit = sharded_a_bytes,
  };
}

} // namespace mc2::planner::ops
