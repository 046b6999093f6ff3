#pragma once

#include <cstdint>

#include "mc2/planner/op_spec.hpp"

namespace mc2::profiler {

/// A matmul of a block has a multiple of this many rows, because the block has as many rows of each shard that it waits
/// for or makes: 1 without row shards; the ranks; or one less, where a rank multiplies its own shard separately.
[[nodiscard]] inline std::int64_t row_unit(planner::OpKind kind, int world_size) {
  const planner::OpTraits& traits = planner::traits_of(kind);
  if (!traits.has_row_shards) return 1;
  const int shards = world_size - (traits.has_local_part ? 1 : 0);
  return shards > 1 ? shards : 1;
}

} // namespace mc2::profiler
