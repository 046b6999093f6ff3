#include "ops/matmul_reduce_scatter.hpp"

#include "ops/shards.hpp"

namespace mc2::planner::ops {

OpTraits matmul_reduce_scatter() noexcept {
  return {
      .kind = OpKind::MatmulReduceScatter,
      .name = "matmul_reduce_scatter",
      .semantics = "every rank computes A[m,k] x B[k,n]; rank r keeps its m/ranks rows of the sum over the ranks",
      .work = Work::Matmul,
      .first_lane = Lane::Compute,
      .has_row_shards = true,
      .has_local_part = false,
      .cut_axis_length = shard_rows,
      .message_bytes_per_unit = sharded_product_bytes,
  };
}

} // namespace mc2::planner::ops
