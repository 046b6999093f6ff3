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

/// Addresses of one rank's A, B, C, gathered A, epilogue matrices, counts and choices.
using MatrixAddresses = std::array<const void*, 11>;

[[nodiscard]] MatrixAddresses addresses_of(const RankBuffers& buffers) noexcept;

/// The graph of fused runs on matrices that rebind() brought. It is captured only when the same matrices come again,
/// because most programs cycle through the same memory.
struct MovedGraph {
  int use_count = 0;
  GraphExec graph;
};

/// The matmuls of one slice of a block: `grouped`, one kernel for the rows of several experts, where that kernel takes
/// them (check_grouped()); `chosen`, where tokens choose experts; else `gemms`, one after the other.
struct Matmuls {
  std::vector<Gemm> gemms;
  std::optional<GroupedMatmul> grouped;
  std::optional<ChosenMatmul> chosen;

  void enqueue(cudaStream_t stream) const;
};

/// The state of one rank. After it is built only the rank's thread touches it.
struct RankState {
  RankBuffers buffers;
  Event last_use;            ///< end of the run that was enqueued last
  RankBuffers prepared_with; ///< buffers of prepare(); those of later runs must be aligned as well
  std::unique_ptr<DeviceMemory> exchange;
  std::unique_ptr<DeviceMemory> spare;        ///< for the communication lane of RunMode::Independent
  std::unique_ptr<DeviceMemory> staging;      ///< if stages_pieces()
  std::unique_ptr<DeviceMemory> tile_memory;  ///< for CudaVariant::stores_tiles
  std::unique_ptr<TileReduction> tiles;       ///< carries out fused runs instead of the lanes
  std::unique_ptr<DeviceMemory> transposed_b; ///< [n, k]; for f8e4m3 if the caller's B is [k, n]
  Matmuls local_matmuls;                      ///< for the own shard, in kinds that gather first
  std::vector<std::vector<Matmuls>> matmuls;  ///< by stage and slice
  BagTables tables;                           ///< for kinds that pool bags; these have no matmuls
  std::unique_ptr<MappedWord> bag_fault;      ///< BagTables::fault, for these kinds
  /// by stage, in kinds that gather first: over all shards, the rank's own included
  std::vector<Matmuls> serial_matmuls;
  std::unique_ptr<DeviceMemory> grouped_memory;  ///< words and tiles of all Matmuls::grouped and Matmuls::chosen
  std::unique_ptr<DeviceMemory> chosen_scratch;  ///< scratch of Matmuls::chosen: of the first stream, then the second
  std::unique_ptr<ChoiceSorter> sorter;          ///< if tokens choose experts
  std::unique_ptr<DeviceMemory> row_copy_memory; ///< if BoundPlan::row_runs: the copies of all stages
  std::vector<RowCopies> row_copies;             ///< by stage, in row_copy_memory
  std::unique_ptr<DeviceRouting> routing;        ///< if runs read counts on the device: makes copies and tiles
  std::array<GraphExec, kRunModeCount> graphs;   ///< for run(), by RunMode
  GraphExec enqueued_graph;                      ///< for enqueue()
  std::map<MatrixAddresses, MovedGraph> moved_graphs;
  Event begin, compute_end, communication_end, finish, fork;
  Event entry;                           ///< orders the caller's stream and ours
  std::vector<std::vector<Event>> ready; ///< by stage and slice: the first lane has finished the slice
  StageEvents local;
  std::vector<StageEvents> compute, communication;
  std::chrono::nanoseconds elapsed{0};

  /// Releases the memory without giving it back to the pool, because runs under way may still use it. The pool frees it
  /// with the communicator.
  void keep_memory() noexcept;
};

/// Addresses of one rank's memory as this process reaches it. For a rank of another process they are null if the
/// transport does not need them.
struct Places {
  std::byte *a, *c, *exchange, *spare, *staging, *tiles, *counts;
};

/// A stage list, the variant that carries it, and what each rank has for it. The code for matmuls (rank_matmuls.hpp),
/// streams (lane_streams.hpp), graphs (plan_graphs.hpp) and times (lane_times.hpp) works on it.
///
/// The lanes meet in the exchange memory: the partial product [m, n] of kinds that multiply first, the gathered A [m,
/// k] of kinds that gather first. In a kind with row shards its blocks lie one after the other, and a block has its
/// rows of every shard side by side, so that the block's collective is contiguous. With RowRuns the rows lie as RowRuns
/// says.
struct BoundPlan {
  BoundPlan(CudaCommunicator& communicator, const StageList& stages, const CudaVariant& variant,
            std::unique_ptr<Transport> transport, std::span<const RankBuffers> buffers,
            std::optional<RowRuns> row_runs);

  [[nodiscard]] RankState& state_of(int rank) noexcept { return ranks[communicator.local_index(rank)]; }
  [[nodiscard]] const RankState& state_of(int rank) const noexcept { return ranks[communicator.local_index(rank)]; }
  [[nodiscard]] RankDevice& device(int rank) const noexcept { return communicator.device(rank); }
  /// Rows of the rank's A and of its C. Runs that read counts on the device may use fewer.
  [[nodiscard]] std::int64_t a_rows(int rank) const noexcept;
  [[nodiscard]] std::int64_t c_rows(int rank) const noexcept;
  [[nodiscard]] bool uses_two_streams() const noexcept { return cuda::uses_two_streams(list, variant); }
  /// Whether the matmuls of a slice run on the second stream. The own shard's matmul is on the first.
  [[nodiscard]] bool is_on_second_stream(std::size_t stage, int slice) const noexcept;
  /// Whether the communication lane exchanges all blocks at once. With CudaVariant::stores_tiles the matmul sums the
  /// tiles, so a run of this lane shall measure the links only. In RunMode::Independent it leaves the sum out, too,
  /// because the matmul beside it holds all SMs.
  [[nodiscard]] bool carries_at_once(RunMode mode) const noexcept;
  /// Whether result_epilogue() follows each block's exchange, because the block's rows of C are whole then. Otherwise
  /// it follows the run.
  [[nodiscard]] bool finishes_blocks(RunMode mode) const noexcept;
  /// The epilogue of these rows of the rank's C.
  [[nodiscard]] RowEpilogue epilogue_of(int rank, const Stage& rows) const;
  /// Number of blocks that one kernel carries in such a run.
  [[nodiscard]] std::size_t spanned(RunMode mode, RunDetail detail) const noexcept {
    return detail == RunDetail::Stages || mode == RunMode::Serial ? 0 : span_length;
  }
  [[nodiscard]] BlockExchange exchange_of(std::size_t stage, RunMode mode) const;
  /// exchange_of() for plans with row_runs.
  [[nodiscard]] BlockExchange row_exchange_of(std::size_t stage, RunMode mode) const;
  /// The exchanges of the first `count` stages.
  [[nodiscard]] std::vector<BlockExchange> exchanges(std::size_t count, RunMode mode) const;

  CudaCommunicator& communicator;
  StageList list;
  CudaVariant variant;
  std::unique_ptr<Transport> transport;
  std::optional<RowRuns> row_runs; ///< set unless all pieces are dense and of one size
  bool reads_device_counts;        ///< row_runs then assumes equal counts
  bool gathers_first;
  bool cuts_columns; ///< stages then count columns of B and C
  /// number of blocks, from the first on, that one kernel carries in runs that are not timed by stage
  std::size_t span_length = 0;
  std::vector<RankState> ranks; ///< the local ranks, in order
  std::vector<Places> places;   ///< of all ranks of the world
};

/// A run of one rank.
struct RankRun {
  int rank;
  RunMode mode;
  RunDetail detail;
  bool is_timed = true; ///< false: nobody reads when it began and ended
};

/// The run that enqueue() submits.
[[nodiscard]] inline RankRun enqueued_run(const BoundPlan& plan, int rank) noexcept {
  return {rank, mode_of(plan.list, RunMode::Fused), RunDetail::Makespan, false};
}

} // namespace mc2::executor::cuda
