#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/cuda_communicator.hpp"
#include "backends/cuda/device_routing.hpp"
#include "backends/cuda/kernels/epilogue.hpp"
#include "backends/cuda/kernels/pooling.hpp"
#include "backends/cuda/runtime/gemm.hpp"
#include "backends/cuda/tiles/chosen_matmul.hpp"
#include "backends/cuda/tiles/grouped_matmul.hpp"
#include "backends/cuda/tiles/tile_reduction.hpp"
#include "backends/cuda/transports/row_runs.hpp"
#include "backends/cuda/transports/transport.hpp"
#include "run_mode.hpp"
#include "stage.hpp"

namespace mc2::executor::cuda {

struct StageEvents {
  Event start, end;
};

/// A, B, C, the gathered A, the epilogue's matrices, counts and choices of one rank, by address.
using MatrixAddresses = std::array<const void*, 11>;

[[nodiscard]] MatrixAddresses addresses_of(const RankBuffers& buffers) noexcept;

/// Fused runs on matrices that were bound later: captured when they come again, because most programs go round the same
/// memory.
struct MovedGraph {
  int use_count = 0;
  GraphExec graph;
};

/// What is multiplied at a time: by one kernel where rows have experts and it takes them, of what tokens choose where
/// they do, else by matmuls one after the other.
struct Matmuls {
  std::vector<Gemm> gemms;
  std::optional<GroupedMatmul> grouped;
  std::optional<ChosenMatmul> chosen;

  void enqueue(cudaStream_t stream) const;
};

/// Everything of one rank; touched by its thread alone once it is built.
struct RankState {
  RankBuffers buffers;
  Event last_use;            ///< the end of the run that was enqueued last
  RankBuffers prepared_with; ///< as aligned as those of later runs must be
  std::unique_ptr<DeviceMemory> exchange;
  std::unique_ptr<DeviceMemory> spare;        ///< used by the communication lane of RunMode::Independent
  std::unique_ptr<DeviceMemory> staging;      ///< where stages_pieces()
  std::unique_ptr<DeviceMemory> tile_memory;  ///< for CudaVariant::stores_tiles
  std::unique_ptr<TileReduction> tiles;       ///< does fused runs instead of the lanes
  std::unique_ptr<DeviceMemory> transposed_b; ///< [n, k], of f8e4m3 where the caller's is [k, n]
  Matmuls local_matmuls;                      ///< of kinds that gather first
  std::vector<std::vector<Matmuls>> matmuls;  ///< by stage and slice
  BagTables tables;                           ///< of kinds that pool bags, which have no matmuls
  std::unique_ptr<MappedWord> bag_fault;      ///< of those: BagTables::fault
  /// by stage, of kinds that gather first: all shards, the rank's own included
  std::vector<Matmuls> serial_matmuls;
  std::unique_ptr<DeviceMemory> grouped_memory;  ///< words and tiles of all Matmuls::grouped and Matmuls::chosen
  std::unique_ptr<DeviceMemory> chosen_scratch;  ///< of those of the first stream, then those of the second
  std::unique_ptr<ChoiceSorter> sorter;          ///< where tokens choose experts
  std::unique_ptr<DeviceMemory> row_copy_memory; ///< where BoundPlan::row_runs: those of all stages
  std::vector<RowCopies> row_copies;             ///< by stage, in there
  std::unique_ptr<DeviceRouting> routing;        ///< where runs read counts on the device: makes those and the tiles
  std::array<GraphExec, kRunModeCount> graphs;   ///< of run(), by RunMode
  GraphExec enqueued_graph;                      ///< of enqueue()
  std::map<MatrixAddresses, MovedGraph> moved_graphs;
  Event begin, compute_end, communication_end, finish, fork;
  Event entry;                           ///< between the caller's stream and ours
  std::vector<std::vector<Event>> ready; ///< by stage and slice: the first lane is done with it
  StageEvents local;
  std::vector<StageEvents> compute, communication;
  std::chrono::nanoseconds elapsed{0};

  /// From all plans to come, as runs under way may use it. The pool frees it with the communicator.
  void keep_memory() noexcept;
};

/// Of one rank, as this process reaches it; of a rank of another process null where the transport does not reach for
/// it.
struct Places {
  std::byte *a, *c, *exchange, *spare, *staging, *tiles, *counts;
};

/// A stage list, the variant that carries it, and what each rank has for it: what matmuls (rank_matmuls.hpp), streams
/// (lane_streams.hpp), graphs (plan_graphs.hpp) and times (lane_times.hpp) all read.
///
/// The lanes meet in the exchange memory: the partial product [m, n] of kinds that multiply first, the gathered A [m,
/// k] of kinds that gather first. Blocks of a kind with row shards lie in it one after the other, each with its rows of
/// every shard side by side, so that a block's collective is contiguous. With RowRuns rows lie as those say.
struct BoundPlan {
  BoundPlan(CudaCommunicator& communicator, const StageList& stages, const CudaVariant& variant,
            std::unique_ptr<Transport> transport, std::span<const RankBuffers> buffers,
            std::optional<RowRuns> row_runs);

  [[nodiscard]] RankState& state_of(int rank) noexcept { return ranks[communicator.local_index(rank)]; }
  [[nodiscard]] const RankState& state_of(int rank) const noexcept { return ranks[communicator.local_index(rank)]; }
  [[nodiscard]] RankDevice& device(int rank) const noexcept { return communicator.device(rank); }
  /// Rows of the rank's A and C that it brings and gets. Runs that read counts on the device may use fewer.
  [[nodiscard]] std::int64_t a_rows(int rank) const noexcept;
  [[nodiscard]] std::int64_t c_rows(int rank) const noexcept;
  [[nodiscard]] bool uses_two_streams() const noexcept { return cuda::uses_two_streams(list, variant); }
  /// The own shard's matmul is on the first stream.
  [[nodiscard]] bool is_on_second_stream(std::size_t stage, int slice) const noexcept;
  /// Where tiles are summed in the matmul, the other lane alone tells of the links: it carries all blocks at once and
  /// sums nothing, nor does it wait for an SM beside the matmul, which holds all.
  [[nodiscard]] bool carries_at_once(RunMode mode) const noexcept;
  /// Whether result_epilogue() follows each block's exchange: its rows of C are whole then. Else it follows the run.
  [[nodiscard]] bool finishes_blocks(RunMode mode) const noexcept;
  /// Of so many rows of the rank's C.
  [[nodiscard]] RowEpilogue epilogue_of(int rank, const Stage& rows) const;
  /// Blocks that one kernel carries in such a run.
  [[nodiscard]] std::size_t spanned(RunMode mode, RunDetail detail) const noexcept {
    return detail == RunDetail::Stages || mode == RunMode::Serial ? 0 : span_length;
  }
  [[nodiscard]] BlockExchange exchange_of(std::size_t stage, RunMode mode) const;
  /// Where ranks exchange rows here and there.
  [[nodiscard]] BlockExchange row_exchange_of(std::size_t stage, RunMode mode) const;
  /// Of the first stages.
  [[nodiscard]] std::vector<BlockExchange> exchanges(std::size_t count, RunMode mode) const;

  CudaCommunicator& communicator;
  StageList list;
  CudaVariant variant;
  std::unique_ptr<Transport> transport;
  std::optional<RowRuns> row_runs; ///< where pieces are not dense and of one size
  bool reads_device_counts;        ///< then row_runs is how it would be with equal counts
  bool gathers_first;
  bool cuts_columns; ///< stages count columns of B and C then
  /// blocks, from the first on, that one kernel carries in runs that are not timed by stage
  std::size_t span_length = 0;
  std::vector<RankState> ranks; ///< the local ones, in their order
  std::vector<Places> places;   ///< by rank, of the whole world
};

/// A run of one rank.
struct RankRun {
  int rank;
  RunMode mode;
  RunDetail detail;
  bool is_timed = true; ///< else nobody reads when it began and ended
};

/// What enqueue() submits.
[[nodiscard]] inline RankRun enqueued_run(const BoundPlan& plan, int rank) noexcept {
  return {rank, mode_of(plan.list, RunMode::Fused), RunDetail::Makespan, false};
}

} // namespace mc2::executor::cuda
