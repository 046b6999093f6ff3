#include "ops/matmul_all_to_all.hpp"

#include "ops/shards.hpp"

namespace mc2::planner::ops {

OpTraits matmul_all_to_all() noexcept {
  return {
      .kind = OpKind::MatmulAllToAll,
      .name = "matmul_all_to_all",
      .semantics = "every rank computes A[m,k] x B[k,n] and sends the q-th m/ranks rows of the product to rank q",
      .work = Work::Matmul,
      .first_lane = Lane::Compute,
      .has_row_shards = true,
      .has_local_part = false,
      .cut_axis_length = shard_rows,
      .message_bytes_per_unit = sharded_product_bytes,
  };
}

} // namespace mc2::planner::ops
