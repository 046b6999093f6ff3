#include "ops/embedding_all_to_all.hpp"

#include "ops/shards.hpp"

namespace mc2::planner::ops {

OpTraits embedding_all_to_all() noexcept {
  return {
      .kind = OpKind::EmbeddingAllToAll,
      .name = "embedding_all_to_all",
      .semantics = "every rank pools bags of its tables' rows into [m,n] and sends the q-th m/ranks samples to rank q",
      .work = Work::Pooling,
      .first_lane = Lane::Compute,
      .has_row_shards = true,
      .has_local_part = false,
      .cut_axis_length = shard_rows,
      .message_bytes_per_unit = sharded_product_bytes,
  };
}

} // namespace mc2::planner::ops
