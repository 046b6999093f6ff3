#include <algorithm>
#include <array>
#include <string>

#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

std::int64_t rows_or_columns(const OpSpec& op) { return cut_axis(op) == CutAxis::Rows ? op.m : op.n; }
std::int64_t row_or_column_bytes(const OpSpec& op) {
  return (cut_axis(op) == CutAxis::Rows ? op.n : op.m) * size_bytes(product_type(op));
}

std::int64_t shard_rows(const OpSpec& op) { return op.m / op.world_size; }
/// Bytes of the same row of every shard, of A or of the product.
std::int64_t sharded_a_bytes(const OpSpec& op) { return op.world_size * op.k * size_bytes(op.dtype); }
std::int64_t sharded_product_bytes(const OpSpec& op) { return op.world_size * op.n * size_bytes(product_type(op)); }

/// Every operator kind; docs/contributing.md lists the other places that name a kind. R is the number of ranks.
constexpr std::array kKinds{
    // Blocks are rows of the product, or its columns where it has few rows (GEMV, decode). The collective's message is
    // the product itself.
    OpTraits{
        .kind = OpKind::MatmulAllReduce,
        .name = "matmul_all_reduce",
        .work = Work::Matmul,
        .collective = Collective::AllReduce,
        .first_lane = Lane::Compute,
        .has_row_shards = false,
        .has_local_part = false,
        .max_column_cut_m = kFewRows, // cutting so few rows gains nothing
        .cut_axis_length = rows_or_columns,
        .message_bytes_per_unit = row_or_column_bytes,
    },
    // Rank r keeps rows [r m/R, (r+1) m/R). Blocks are rows of one shard: a block of rows [r0, r0 + b) computes those
    // rows of every shard, R b rows of the product, and scatters them, so that each rank's result keeps its layout.
    OpTraits{
        .kind = OpKind::MatmulReduceScatter,
        .name = "matmul_reduce_scatter",
        .work = Work::Matmul,
        .collective = Collective::ReduceScatter,
        .first_lane = Lane::Compute,
        .has_row_shards = true,
        .has_local_part = false,
        .cut_axis_length = shard_rows,
        .message_bytes_per_unit = sharded_product_bytes,
    },
    // Rank r holds rows [r m/R, (r+1) m/R) of A. A block of rows [r0, r0 + b) gathers those rows of every shard and
    // then multiplies those of the R - 1 other ranks; the own shard is multiplied first, while they arrive.
    OpTraits{
        .kind = OpKind::AllGatherMatmul,
        .name = "all_gather_matmul",
        .work = Work::Matmul,
        .collective = Collective::AllGather,
        .first_lane = Lane::Communication,
        .has_row_shards = true,
        .has_local_part = true,
        .gathers_a = true,
        .cut_axis_length = shard_rows,
        .message_bytes_per_unit = sharded_a_bytes,
    },
    // Rows [q m/R, (q+1) m/R) of the product go to rank q, which stores what it receives one below the other in the
    // order of the senders: a mixture of experts' combine. Blocks are as with matmul_reduce_scatter.
    OpTraits{
        .kind = OpKind::MatmulAllToAll,
        .name = "matmul_all_to_all",
        .work = Work::Matmul,
        .collective = Collective::AllToAll,
        .first_lane = Lane::Compute,
        .has_row_shards = true,
        .has_local_part = false,
        .takes_counts = true,
        .cut_axis_length = shard_rows,
        .message_bytes_per_unit = sharded_product_bytes,
    },
    // Rows [q m/R, (q+1) m/R) of A go to rank q, which multiplies what it receives, one below the other in the order of
    // the senders: a mixture of experts' dispatch. Blocks are as with all_gather_matmul.
    OpTraits{
        .kind = OpKind::AllToAllMatmul,
        .name = "all_to_all_matmul",
        .work = Work::Matmul,
        .collective = Collective::AllToAll,
        .first_lane = Lane::Communication,
        .has_row_shards = true,
        .has_local_part = true,
        .takes_counts = true,
        .cut_axis_length = shard_rows,
        .message_bytes_per_unit = sharded_a_bytes,
    },
    // Table-parallel to batch-parallel: rank q puts the columns of rank 0's tables first, then those of rank 1's:
    // [m/R, R n]. Blocks are samples of one rank's share: a block of samples [s0, s0 + b) pools those of every rank's
    // share, R b samples, and exchanges them.
    OpTraits{
        .kind = OpKind::EmbeddingAllToAll,
        .name = "embedding_all_to_all",
        .work = Work::Pooling,
        .collective = Collective::AllToAll,
        .first_lane = Lane::Compute,
        .has_row_shards = true,
        .has_local_part = false,
        .lands_side_by_side = true,
        .cut_axis_length = shard_rows,
        .message_bytes_per_unit = sharded_product_bytes,
    },
    // A tensor-parallel mixture of experts, first half: every rank has some columns of each expert's B. C has a row for
    // every choice, a token's choices one below the other. Blocks are as with all_gather_matmul.
    OpTraits{
        .kind = OpKind::AllGatherGroupedMatmul,
        .name = "all_gather_grouped_matmul",
        .work = Work::GroupedMatmul,
        .collective = Collective::AllGather,
        .first_lane = Lane::Communication,
        .has_row_shards = true,
        .has_local_part = true,
        .gathers_a = true,
        .cut_axis_length = shard_rows,
        .message_bytes_per_unit = sharded_a_bytes,
    },
    // Second half: every rank has some rows of each expert's B, and A has a row for every choice. A token's products
    // are weighted and added up before they are sent, so that a message has one row for a token. Blocks are as with
    // matmul_reduce_scatter.
    OpTraits{
        .kind = OpKind::GroupedMatmulReduceScatter,
        .name = "grouped_matmul_reduce_scatter",
        .work = Work::GroupedMatmul,
        .collective = Collective::ReduceScatter,
        .first_lane = Lane::Compute,
        .has_row_shards = true,
        .has_local_part = false,
        .cut_axis_length = shard_rows,
        .message_bytes_per_unit = sharded_product_bytes,
    },
    // The second half where every rank wants all tokens. Blocks are rows of the sum, which is the message.
    OpTraits{
        .kind = OpKind::GroupedMatmulAllReduce,
        .name = "grouped_matmul_all_reduce",
        .work = Work::GroupedMatmul,
        .collective = Collective::AllReduce,
        .first_lane = Lane::Compute,
        .has_row_shards = false,
        .has_local_part = false,
        .cut_axis_length = rows_or_columns,
        .message_bytes_per_unit = row_or_column_bytes,
    },
};

} // namespace

std::span<const OpTraits> op_registry() noexcept { return kKinds; }

const OpTraits& traits_of(OpKind kind) {
  for (const auto& traits : kKinds)
    if (traits.kind == kind) return traits;
  check_failed("kind is registered", __FILE__, __LINE__, "an OpKind without a row in the table of kinds");
}

std::string kinds_with(bool (*has_trait)(const OpTraits&)) {
  std::vector<std::string> names;
  for (const auto& traits : kKinds)
    if (has_trait(traits)) names.emplace_back(traits.name);
  return and_text(names);
}

std::string_view to_string(OpKind kind) { return traits_of(kind).name; }

Result<OpKind> parse_op_kind(std::string_view name) {
  MC2_ASSIGN(const auto* const traits, find_named(kKinds, name, &OpTraits::name, "op", "operator"));
  return traits->kind;
}

} // namespace mc2::planner
