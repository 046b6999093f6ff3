#include "backends/cuda/rank_matmuls.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>

#include "backends/cuda/cuda_checks.hpp"
#include "backends/cuda/kernels/transpose.hpp"
#include "bags.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/units.hpp"
#include "texts.hpp"

namespace mc2::executor::cuda {
namespace {

BagTables tables_of(const planner::OpSpec& op, const RankState& state) {
  const EmbeddingBags& bags = state.buffers.bags;
  return {.rows = state.buffers.b.data(),
          .offsets = bags.offsets.data(),
          .indices = bags.indices.data(),
          .index_bytes = static_cast<int>(size_bytes(bags.type)),
          .dtype = op.dtype,
          .is_mean = op.tables->pooling == planner::Pooling::Mean,
          .table_count = op.tables->table_count,
          .row_count = op.tables->row_count,
          .columns = op.n / op.tables->table_count,
          .sample_count = op.m,
          .index_count = static_cast<std::int64_t>(bags.indices.size()) / size_bytes(bags.type),
          .fault = state.bag_fault->device()};
}

bool is_b_transposed(const RankState& state) { return state.transposed_b || state.buffers.b_is_transposed; }

/// Builds the matmuls of one rank.
class MatmulBuilder {
 public:
  MatmulBuilder(BoundPlan& plan, int rank)
      : plan_(plan), rank_(rank), state_(plan.state_of(rank)), device_(plan.device(rank)) {}

  void build_gemms() {
    transpose_b();
    for (std::size_t i = 0; i < plan_.list.stages.size(); ++i) {
      if (plan_.gathers_first) {
        GemmContext& context = *device_.gemm;
        state_.serial_matmuls.push_back(make_matmuls(context, plan_.list.stages[i], {0, plan_.list.op.world_size}));
      }
      auto& slices = state_.matmuls.emplace_back();
      for (int slice = 0; slice < plan_.transport->slice_count(); ++slice)
        slices.push_back(make_slice_matmuls(i, slice));
    }
    if (!plan_.gathers_first) return;
    if (plan_.list.op.experts) return build_local_chosen();
    if (!plan_.row_runs) return build_local_gemm();
    const RowPlace a{state_.buffers.a.data(), plan_.a_rows(rank_)};
    state_.local_matmuls = make_expert_matmuls(*device_.gemm, plan_.row_runs->local(rank_), a);
  }

  void build_tables() {
    state_.bag_fault = std::make_unique<MappedWord>(kBagFaultWords);
    state_.tables = tables_of(plan_.list.op, state_);
  }

  /// Gives every matmul of chosen experts its place in the scratch memory of its stream.
  void place_chosen() {
    const planner::OpSpec& op = plan_.list.op;
    const bool adds_up = planner::traits_of(op.kind).sums();
    std::array<std::int64_t, 2> most_rows{};
    for_each_chosen([&](ChosenMatmul& matmul, bool is_second) {
      most_rows[is_second] = std::max(most_rows[is_second], matmul.row_count());
    });
    const auto bytes = [&](std::int64_t rows) { return ChosenMatmul::scratch_bytes(rows, op.n, op.k, adds_up); };
    state_.chosen_scratch =
        std::make_unique<DeviceMemory>(*device_.pool, static_cast<std::size_t>(bytes(most_rows[0] + most_rows[1])));
    std::byte* const first = state_.chosen_scratch->bytes().data();
    for_each_chosen([&](ChosenMatmul& matmul, bool is_second) {
      matmul.set_scratch(first + (is_second ? bytes(most_rows[0]) : 0));
      matmul.set_weights(state_.buffers.choices.weights.data());
    });
  }

  /// Called after upload_grouped().
  void build_sorter() {
    std::vector<ChosenMatmul*> all;
    for_each_chosen([&](ChosenMatmul& matmul, bool /*is_second*/) { all.push_back(&matmul); });
    state_.sorter = std::make_unique<ChoiceSorter>(all, rank_, *plan_.list.op.experts, *device_.pool);
  }

 private:
  template <typename Work>
  void for_each_chosen(const Work& work) {
    for (std::size_t i = 0; i < state_.matmuls.size(); ++i)
      for (std::size_t slice = 0; slice < state_.matmuls[i].size(); ++slice)
        work(*state_.matmuls[i][slice].chosen, plan_.is_on_second_stream(i, static_cast<int>(slice)));
    for (Matmuls& matmuls : state_.serial_matmuls) work(*matmuls.chosen, false);
    if (state_.local_matmuls.chosen) work(*state_.local_matmuls.chosen, false);
  }

  /// The ranks whose shards a slice of chosen experts covers.
  [[nodiscard]] std::vector<RankRange> handed_over(int slice) const {
    const int world_size = plan_.list.op.world_size;
    if (plan_.transport->slice_count() > 1) return {plan_.transport->slice_ranks(rank_, slice)};
    if (plan_.gathers_first) return {{0, rank_}, {rank_ + 1, world_size}};
    return {{0, world_size}};
  }

  void build_local_chosen() {
    const auto shard_rows = static_cast<std::int32_t>(plan_.list.op.m / plan_.list.op.world_size);
    ChosenTokens tokens{.run_count = 1, .token_count = shard_rows};
    tokens.runs[0] = {.first_token = rank_ * shard_rows, .c_token = rank_ * shard_rows, .token_count = shard_rows};
    state_.local_matmuls = make_chosen(tokens, operands_of(state_.buffers.a.data(), 0, state_.buffers.c.data()));
  }

  /// The matmul of the block's tokens in these shards.
  Matmuls make_block_chosen(const Stage& block, const std::vector<RankRange>& shards) {
    const planner::OpSpec& op = plan_.list.op;
    const bool has_shards = planner::traits_of(op.kind).has_row_shards;
    const auto packed_row = [&](int shard) {
      return has_shards ? block.first_row * op.world_size + shard * block.row_count : block.first_row;
    };
    const auto token_of = [&](int shard) {
      return (has_shards ? shard * (op.m / op.world_size) : 0) + block.first_row;
    };
    ChosenTokens tokens;
    for (const RankRange& range : shards) {
      for (int shard = range.first; shard < (has_shards ? range.last : 1); ++shard) {
        const std::int64_t token = token_of(shard);
        const std::int64_t a_token = plan_.gathers_first ? packed_row(shard) : token;
        const std::int64_t c_token = plan_.gathers_first ? token : tokens.token_count;
        tokens.runs[static_cast<std::size_t>(tokens.run_count++)] = {
            static_cast<std::int32_t>(token), static_cast<std::int32_t>(a_token), static_cast<std::int32_t>(c_token),
            static_cast<std::int32_t>(block.row_count)};
        tokens.token_count += static_cast<std::int32_t>(block.row_count);
      }
    }
    const std::int64_t to_row = plan_.gathers_first ? 0 : packed_row(shards.front().first);
    return make_chosen(tokens,
                       operands_of(first_operand(), 0, product() + to_row * op.n * planner::size_bytes(op.dtype)));
  }

  Matmuls make_chosen(ChosenTokens tokens, const GemmOperands& operands) {
    const planner::OpSpec& op = plan_.list.op;
    const bool adds_up = planner::traits_of(op.kind).sums();
    tokens.top_k = static_cast<std::int32_t>(op.experts->top_k);
    tokens.is_wide = adds_up;
    const GroupedShape shape{.is_half = op.dtype == planner::DType::F16,
                             .c_rows = operand_shapes(op).c.rows,
                             .n = op.n,
                             .k = op.k,
                             .expert_count = op.experts->count,
                             .b_is_transposed = is_b_transposed(state_),
                             .cta_count = plan_.variant.gemm_sm_count};
    Matmuls made;
    made.chosen.emplace(shape, tokens, adds_up, operands);
    return made;
  }

  void build_local_gemm() {
    const planner::OpSpec& op = plan_.list.op;
    const std::int64_t shard_rows = op.m / op.world_size;
    const bool holds_all_rows = !planner::traits_of(op.kind).gathers_a; // A has all ranks' rows, else its own only
    const std::byte* own_a =
        state_.buffers.a.data() + (holds_all_rows ? rank_ * shard_rows * op.k * planner::size_bytes(op.dtype) : 0);
    std::byte* own_c =
        state_.buffers.c.data() + rank_ * shard_rows * op.n * planner::size_bytes(planner::product_type(op));
    state_.local_matmuls.gemms.push_back(make_gemm(*device_.gemm, {.rows = shard_rows}, operands_of(own_a, 0, own_c)));
  }

  /// cuBLASLt multiplies f8e4m3 only by a B stored as [n, k], so another B is transposed.
  void transpose_b() {
    const planner::OpSpec& op = plan_.list.op;
    if (op.dtype != planner::DType::F8E4m3 || state_.buffers.b_is_transposed) return;
    state_.transposed_b = std::make_unique<DeviceMemory>(*device_.pool, state_.buffers.b.size());
    enqueue_transpose(state_.buffers.b.data(), state_.transposed_b->bytes().data(), op.k, op.n, device_.compute.get());
  }

  /// The matmuls of the rows of one slice.
  Matmuls make_slice_matmuls(std::size_t stage, int slice) {
    const int world_size = plan_.list.op.world_size;
    if (plan_.list.op.experts) return make_block_chosen(plan_.list.stages[stage], handed_over(slice));
    const bool is_second = plan_.is_on_second_stream(stage, slice);
    GemmContext& context = *(is_second ? device_.second_gemm : device_.gemm);
    const Stage& block = plan_.list.stages[stage];
    if (plan_.transport->slice_count() > 1)
      return make_matmuls(context, block, plan_.transport->slice_ranks(rank_, slice));
    if (!plan_.gathers_first) return make_matmuls(context, block, {0, world_size});
    if (plan_.row_runs) return make_row_matmuls(context, block, {0, world_size}, RowRuns::Own::Left);
    Matmuls made; // leaves out the rank's own shard, the local part, which lies between the others
    if (rank_ > 0) made.gemms.push_back(make_block_gemm(context, block, 0, rank_));
    if (rank_ + 1 < world_size) made.gemms.push_back(make_block_gemm(context, block, rank_ + 1, world_size));
    return made;
  }

  /// The matmuls of all rows of a block that belong to `ranks`.
  Matmuls make_matmuls(GemmContext& context, const Stage& block, RankRange ranks) {
    if (plan_.list.op.experts) return make_block_chosen(block, {ranks});
    if (plan_.row_runs) return make_row_matmuls(context, block, ranks, RowRuns::Own::Taken);
    Matmuls made;
    made.gemms.push_back(make_block_gemm(context, block, ranks.first, ranks.last));
    return made;
  }

  Matmuls make_row_matmuls(GemmContext& context, const Stage& block, RankRange ranks, RowRuns::Own own) {
    const std::int64_t rows = plan_.gathers_first ? plan_.list.op.m : plan_.a_rows(rank_);
    return make_expert_matmuls(context, plan_.row_runs->multiplied(rank_, block, ranks, own), {first_operand(), rows});
  }

  /// A matrix by its address and number of rows.
  struct RowPlace {
    const std::byte* first;
    std::int64_t row_count;
  };

  Matmuls make_expert_matmuls(GemmContext& context, const std::vector<ExpertRun>& runs, const RowPlace& a) {
    Matmuls made;
    if (check_grouped(plan_.list.op, plan_.variant, {rank_, plan_.communicator.device_number(rank_)}, state_.buffers))
      made.grouped = make_grouped(runs, a);
    else
      for (const ExpertRun& run : runs) made.gemms.push_back(make_expert_gemm(context, run, a.first));
    return made;
  }

  /// Most rows of a block with any counts. Equal counts fill a block, so they give the maximum.
  static std::int64_t most_rows(const std::vector<ExpertRun>& runs) {
    std::int64_t count = 0;
    for (const ExpertRun& run : runs) count += run.rows.row_count;
    return count;
  }

  GroupedMatmul make_grouped(const std::vector<ExpertRun>& runs, const RowPlace& a) {
    const planner::OpSpec& op = plan_.list.op;
    const GroupedShape shape{.is_half = op.dtype == planner::DType::F16,
                             .a_rows = a.row_count,
                             .c_rows = plan_.gathers_first ? plan_.c_rows(rank_) : op.m,
                             .n = op.n,
                             .k = op.k,
                             .expert_count = op.experts_per_rank,
                             .b_is_transposed = is_b_transposed(state_),
                             .cta_count = plan_.variant.gemm_sm_count};
    GroupedMatmul made(shape, runs);
    if (plan_.reads_device_counts) made.reserve(most_rows(runs), op.world_size * op.experts_per_rank);
    made.set_operands(operands_of(a.first, 0, product()));
    return made;
  }

  Gemm make_expert_gemm(GemmContext& context, const ExpertRun& run, const std::byte* from) {
    const planner::OpSpec& op = plan_.list.op;
    GemmOperands operands =
        operands_of(from + run.rows.from_row * op.k * planner::size_bytes(op.dtype),
                    run.expert * op.k * op.n * planner::size_bytes(op.dtype),
                    product() + run.rows.to_row * op.n * planner::size_bytes(planner::product_type(op)));
    if (operands.bias != nullptr) operands.bias += run.expert * op.n * planner::size_bytes(planner::product_type(op));
    return make_gemm(context, {.rows = run.rows.row_count}, operands);
  }

  /// The first operand of the lanes' matmuls: the exchange memory if the kind gathers first, else A. product() is where
  /// they write: C if the kind gathers first, else the exchange memory.
  [[nodiscard]] const std::byte* first_operand() const {
    return plan_.gathers_first ? state_.exchange->bytes().data() : state_.buffers.a.data();
  }
  [[nodiscard]] std::byte* product() const {
    return plan_.gathers_first ? state_.buffers.c.data() : state_.exchange->bytes().data();
  }

  /// The matmul of the block's rows in the shards [first_shard, last_shard).
  Gemm make_block_gemm(GemmContext& context, const Stage& stage, int first_shard, int last_shard) {
    const planner::OpSpec& op = plan_.list.op;
    const bool has_shards = planner::traits_of(op.kind).has_row_shards;
    if (plan_.cuts_columns) return make_column_gemm(context, stage);
    if (!has_shards) return make_rows_gemm(context, {.rows = stage.row_count}, stage.first_row, stage.first_row);
    const std::int64_t shard_rows = op.m / op.world_size;
    const int shard_count = last_shard - first_shard;
    const std::int64_t in_place_row = first_shard * shard_rows + stage.first_row;
    const std::int64_t packed_row = stage.first_row * op.world_size + first_shard * stage.row_count;
    const std::int64_t a_row_stride = plan_.gathers_first ? stage.row_count : shard_rows;
    const std::int64_t c_row_stride = plan_.gathers_first ? shard_rows : stage.row_count;
    GemmShape shape{.rows = stage.row_count,
                    .batch_count = shard_count,
                    .a_stride = a_row_stride * op.k,
                    .c_stride = c_row_stride * op.n};
    if (stage.row_count == shard_rows) { // shards touch in A and in C, so one matmul does
      shape.rows *= shard_count;
      shape.batch_count = 1;
    }
    return make_rows_gemm(context, shape, plan_.gathers_first ? packed_row : in_place_row,
                          plan_.gathers_first ? in_place_row : packed_row);
  }

  /// Multiplies all rows by the block's columns of B. The product is dense in the exchange memory: it is the
  /// collective's message.
  Gemm make_column_gemm(GemmContext& context, const Stage& stage) {
    const planner::OpSpec& op = plan_.list.op;
    const std::int64_t c_offset = stage.first_row * op.m * planner::size_bytes(planner::product_type(op));
    return make_gemm(context, {.rows = op.m, .n = stage.row_count, .b_pitch = op.n},
                     operands_of(state_.buffers.a.data(),
                                 stage.first_row * (is_b_transposed(state_) ? op.k : 1) * planner::size_bytes(op.dtype),
                                 state_.exchange->bytes().data() + c_offset));
  }

  /// A matmul from rows of first_operand() to rows of product().
  Gemm make_rows_gemm(GemmContext& context, const GemmShape& shape, std::int64_t from_row, std::int64_t to_row) {
    const planner::OpSpec& op = plan_.list.op;
    return make_gemm(context, shape,
                     operands_of(first_operand() + from_row * op.k * planner::size_bytes(op.dtype), 0,
                                 product() + to_row * op.n * planner::size_bytes(planner::product_type(op))));
  }

  /// A matmul of the library. Where `shape` gives no n, it is the operator's.
  Gemm make_gemm(GemmContext& context, GemmShape shape, const GemmOperands& operands) {
    const planner::OpSpec& op = plan_.list.op;
    shape.dtype = op.dtype;
    if (shape.n == 0) shape.n = op.n;
    shape.k = op.k;
    shape.b_is_transposed = is_b_transposed(state_);
    shape.sm_count = plan_.variant.gemm_sm_count;
    shape.tile = plan_.variant.gemm_tile;
    const planner::MatmulCall call{shape.rows, shape.batch_count, shape.sm_count};
    return Gemm(context, shape, operands, [&](std::span<const planner::MatmulTile> offered) {
      return planner::choose_tile(plan_.communicator.fingerprint(), op, call, offered);
    });
  }

  /// @param b_offset bytes from the start of B, transposed_b if there is one
  /// @param c an address in C if the kind gathers first
  GemmOperands operands_of(const std::byte* a, std::int64_t b_offset, std::byte* c) const {
    const std::byte* const b = state_.transposed_b ? state_.transposed_b->bytes().data() : state_.buffers.b.data();
    const planner::Epilogue added = matmul_epilogue(plan_.list.op);
    return {.a = a,
            .b = b + b_offset,
            .c = c,
            .bias = added.has_bias ? state_.buffers.bias.data() : nullptr,
            .residual = added.has_residual ? state_.buffers.residual.data() + (c - state_.buffers.c.data()) : nullptr,
            .a_scale = state_.buffers.a_scales.data(),
            .b_scale = state_.buffers.b_scales.data()};
  }

  BoundPlan& plan_;
  int rank_;
  RankState& state_;
  RankDevice& device_;
};

/// The pooling of a block's samples in the slice's shard, or in all shards if the block is one slice.
PoolingRun pooling_of(const BoundPlan& plan, int rank, std::size_t stage, int slice) {
  const planner::OpSpec& op = plan.list.op;
  const Stage& block = plan.list.stages[stage];
  const bool is_one_shard = plan.transport->slice_count() > 1;
  const std::int64_t shard_rows = op.m / op.world_size;
  const int shard = is_one_shard ? plan.transport->slice_ranks(rank, slice).first : 0;
  const std::int64_t product_row = block.first_row * op.world_size + shard * block.row_count;
  return {.first_sample = shard * shard_rows + block.first_row,
          .row_count = block.row_count,
          .shard_count = is_one_shard ? 1 : op.world_size,
          .sample_stride = shard_rows,
          .product = plan.state_of(rank).exchange->bytes().data() + product_row * op.n * planner::size_bytes(op.dtype)};
}

template <typename Work>
void for_each_matmuls(RankState& state, const Work& work) {
  for (auto& stage : state.matmuls) std::ranges::for_each(stage, work);
  std::ranges::for_each(state.serial_matmuls, work);
  work(state.local_matmuls);
}

void upload_grouped(RankState& state, DevicePool& pool) {
  std::vector<GroupedMatmul*> all;
  for_each_matmuls(state, [&](Matmuls& matmuls) {
    if (matmuls.grouped) all.push_back(&*matmuls.grouped);
    if (matmuls.chosen) all.push_back(&matmuls.chosen->grouped());
  });
  if (all.empty()) return;
  state.grouped_memory = upload_tiles(all, pool);
}

void bind_tiles(BoundPlan& plan, int rank) {
  const RankState& state = plan.state_of(rank);
  const RankBuffers& buffers = state.buffers;
  TileReduction::Matrices matrices{
      .a = buffers.a.data(), .b = buffers.b.data(), .c = {}, .products = state.exchange->bytes().data()};
  for (std::size_t i = 0; i < plan.places.size(); ++i) matrices.c[i] = plan.places[i].c;
  state.tiles->bind(matrices);
}

} // namespace

void build_matmuls(BoundPlan& plan, int rank) {
  MatmulBuilder builder(plan, rank);
  if (plan.list.op.tables)
    builder.build_tables();
  else if (!plan.variant.stores_tiles)
    builder.build_gemms();
  upload_grouped(plan.state_of(rank), *plan.device(rank).pool);
  if (!plan.list.op.experts) return;
  builder.place_chosen();
  builder.build_sorter();
}

std::array<std::int64_t, 2> row_run_bytes(const StageList& stages) noexcept {
  const planner::OpSpec& op = stages.op;
  const std::int64_t run_count = std::ssize(stages.stages) * op.world_size * op.experts_per_rank;
  const std::int64_t row_tiles = planner::ceil_div(op.m, std::int64_t{kTileRows}) + run_count;
  constexpr std::int64_t kLists = 3; // all blocks one by one, the run that does not overlap, the own rows
  const std::int64_t tile_count = kLists * row_tiles * planner::ceil_div(op.n, std::int64_t{kNarrowTile});
  return {run_count * static_cast<std::int64_t>(sizeof(RowCopy)),
          tile_count * static_cast<std::int64_t>(sizeof(GroupedTile))};
}

std::vector<std::int64_t> chosen_bytes(const StageList& stages, const CudaVariant& variant) {
  const planner::OpSpec& op = stages.op;
  if (!op.experts) return {};
  const planner::OpTraits& traits = planner::traits_of(op.kind);
  const bool gathers_first = traits.communicates_first();
  std::int64_t most_tokens = gathers_first ? op.m / op.world_size : 0;
  for (const Stage& block : stages.stages)
    most_tokens = std::max(most_tokens, block.row_count * (traits.has_row_shards ? op.world_size : 1));
  const std::int64_t runs_of_all = gathers_first ? 2 : 1; // serial runs have matmuls of their own
  const std::int64_t slice_count = variant.transport == CudaVariant::Transport::CopyEngine ? op.world_size : 1;
  const std::int64_t matmul_count = std::ssize(stages.stages) * (slice_count + runs_of_all - 1) + runs_of_all - 1;
  const auto [sorted, tiles] =
      sorted_choice_bytes(runs_of_all * op.m * op.experts->top_k, matmul_count, op.experts->count, op.n);
  const std::int64_t scratch = ChosenMatmul::scratch_bytes(most_tokens * op.experts->top_k, op.n, op.k, traits.sums());
  return {sorted, tiles, (uses_two_streams(stages, variant) ? 2 : 1) * scratch};
}

void build_row_copies(BoundPlan& plan, int rank) {
  if (!plan.row_runs) return;
  RankState& state = plan.state_of(rank);
  std::vector<RowCopy> all;
  std::vector<std::size_t> ends;
  for (const Stage& stage : plan.list.stages) {
    std::ranges::copy(plan.row_runs->pulled(rank, stage), std::back_inserter(all));
    ends.push_back(all.size());
  }
  const auto bytes = std::as_bytes(std::span(all));
  state.row_copy_memory = std::make_unique<DeviceMemory>(*plan.device(rank).pool, bytes.size());
  state.row_copy_memory->upload(bytes);
  const auto* first = reinterpret_cast<const RowCopy*>(state.row_copy_memory->bytes().data());
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    state.row_copies.push_back({first + begin, static_cast<int>(end - begin)});
    begin = end;
  }
}

namespace {

/// The casts are needed because these kernels write what the descriptions of other kernels only read.
RoutedList tile_list(const GroupedMatmul& matmul, RoutedList::Of of, const Stage& block) {
  return {.of = of,
          .first_row = block.first_row,
          .row_count = block.row_count,
          .tiles = const_cast<GroupedTile*>(matmul.run().tiles),
          .tile_count = const_cast<std::int32_t*>(matmul.run().tile_count),
          .tile_columns = matmul.tile_columns()};
}

} // namespace

void build_routing(BoundPlan& plan, int rank) {
  RankState& state = plan.state_of(rank);
  const planner::OpSpec& op = plan.list.op;
  DevicePool& pool = *plan.device(rank).pool;
  const std::size_t stage_count = plan.list.stages.size(), copy_count = count_count(op);
  state.row_copy_memory = std::make_unique<DeviceMemory>(pool, stage_count * copy_count * sizeof(RowCopy));
  auto* copies = reinterpret_cast<RowCopy*>(state.row_copy_memory->bytes().data());
  using Of = RoutedList::Of;
  std::vector<RoutedList> lists;
  for (std::size_t i = 0; i < stage_count; ++i, copies += copy_count) {
    const Stage& block = plan.list.stages[i];
    state.row_copies.push_back({copies, static_cast<int>(copy_count)});
    lists.push_back({.of = Of::Copies, .first_row = block.first_row, .row_count = block.row_count, .copies = copies});
    lists.push_back(
        tile_list(*state.matmuls[i].front().grouped, plan.gathers_first ? Of::PeersTiles : Of::Tiles, block));
    if (plan.gathers_first) lists.push_back(tile_list(*state.serial_matmuls[i].grouped, Of::Tiles, block));
  }
  if (plan.gathers_first)
    lists.push_back(tile_list(*state.local_matmuls.grouped, Of::LocalTiles, {0, op.m / op.world_size}));
  state.routing = std::make_unique<DeviceRouting>(op, rank, pool);
  state.routing->set_lists(lists, pool);
}

void connect_routing(BoundPlan& plan, int rank) {
  std::vector<std::byte*> tables;
  for (const Places& of_rank : plan.places) tables.push_back(of_rank.counts);
  plan.state_of(rank).routing->set_tables(tables);
}

void build_tiles(BoundPlan& plan, int rank) {
  RankState& state = plan.state_of(rank);
  std::vector<std::byte*> memory;
  for (const Places& of_rank : plan.places) memory.push_back(of_rank.tiles);
  const TileReduction::Options options{.tile_columns = plan.variant.tile_columns,
                                       .b_is_transposed = is_b_transposed(state),
                                       .cta_count = plan.variant.gemm_sm_count};
  state.tiles = std::make_unique<TileReduction>(plan.list, rank, options, memory,
                                                plan.communicator.signals_of(rank).abort, *plan.device(rank).pool);
  bind_tiles(plan, rank);
}

void rebind_matmuls(BoundPlan& plan, int rank, const RankBuffers& had) {
  RankState& state = plan.state_of(rank);
  if (plan.list.op.tables) state.tables = tables_of(plan.list.op, state);
  const RankBuffers& has = state.buffers;
  // Operands lie in the caller's matrices, or in the exchange memory, which does not move.
  const auto moved = [](const std::byte* address, std::span<const std::byte> from, std::span<const std::byte> to) {
    const bool is_inside = address >= from.data() && address < from.data() + from.size();
    return is_inside ? to.data() + (address - from.data()) : address;
  };
  const auto move = [&](auto& matmul) {
    const GemmOperands& old = matmul.operands();
    matmul.set_operands({.a = moved(old.a, had.a, has.a),
                         .b = moved(old.b, had.b, has.b),
                         .c = const_cast<std::byte*>(moved(old.c, had.c, has.c)),
                         .bias = moved(old.bias, had.bias, has.bias),
                         .residual = moved(old.residual, had.residual, has.residual)});
  };
  for_each_matmuls(state, [&](Matmuls& matmuls) {
    std::ranges::for_each(matmuls.gemms, move);
    if (matmuls.grouped) move(*matmuls.grouped);
    if (!matmuls.chosen) return;
    move(*matmuls.chosen);
    matmuls.chosen->set_weights(has.choices.weights.data());
  });
  if (state.tiles) bind_tiles(plan, rank);
}

void enqueue_matmuls(const BoundPlan& plan, int rank, std::size_t stage, int slice, cudaStream_t stream) {
  const RankState& state = plan.state_of(rank);
  if (plan.list.op.tables)
    return enqueue_pooling(state.tables, pooling_of(plan, rank, stage, slice), plan.variant.gemm_sm_count, stream);
  state.matmuls[stage][static_cast<std::size_t>(slice)].enqueue(stream);
}

void require_legal_input(const BoundPlan& plan, int rank) {
  const RankState& state = plan.state_of(rank);
  if (state.routing) state.routing->require_legal();
  if (state.sorter) state.sorter->require_legal();
  const auto fault = state.bag_fault ? static_cast<BagFault>(state.bag_fault->get()) : BagFault::None;
  if (fault == BagFault::None) return;
  const planner::OpSpec& op = plan.list.op;
  const MappedWord& told = *state.bag_fault;
  const std::int64_t bag = told.get(1);
  const auto row = static_cast<std::int64_t>(std::uint64_t{told.get(3)} << 32U | told.get(2));
  std::string text = rank_text(rank);
  if (fault == BagFault::BeingTold)
    text += " met an illegal bag";
  else
    text += ", table " + std::to_string(bag / op.m) + ", sample " + std::to_string(bag % op.m) +
            (fault == BagFault::Row ? ": names row " + std::to_string(row) + "; a table has rows 0 to " +
                                          std::to_string(op.tables->row_count - 1)
                                    : ": the offsets do not ascend from 0 to the number of indices");
  throw SystemError("bags", EINVAL, text);
}

} // namespace mc2::executor::cuda
