#include "ops/matmul_all_reduce.hpp"

namespace mc2::planner::ops {
namespace {

/// One tile of rows: the matmul reads all of B for any number of rows up to it, so there is nothing to gain from rows.
constexpr std::int64_t kMaxColumnCutM = 64;

} // namespace

OpTraits matmul_all_reduce() noexcept {
  return {
      .kind = OpKind::MatmulAllReduce,
      .name = "matmul_all_reduce",
      .semantics = "every rank computes A[m,k] x B[k,n]; the sum over the ranks ends on all of them",
      .work = Work::Matmul,
      .first_lane = Lane::Compute,
      .has_row_shards = false,
      .has_local_part = false,
      .max_column_cut_m = kMaxColumnCutM,
      .cut_axis_length = [](const OpSpec& op) { return op.m <= kMaxColumnCutM ? op.n : op.m; },
      .message_bytes_per_unit =
          [](const OpSpec& op) { return (op.m <= kMaxColumnCutM ? op.m : op.n) * size_bytes(product_type(op)); },
  };
}

} // namespace mc2::planner::ops
