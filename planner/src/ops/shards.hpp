#pragma once

#include "mc2/planner/op_spec.hpp"

namespace mc2::planner::ops {

/// Rows of one rank's shard: the cut axis of kinds with row shards.
inline std::int64_t shard_rows(const OpSpec& op) { return op.m / op.world_size; }

/// Bytes of the full array that one row of the cut axis brings together: the same row of every shard, of A or of the
/// product.
inline std::int64_t sharded_a_bytes(const OpSpec& op) { return op.world_size * op.k * size_bytes(op.dtype); }
inline std::int64_t sharded_product_bytes(const OpSpec& op) {
  return op.world_size * op.n * size_bytes(product_type(op));
}

} // namespace mc2::planner::ops
