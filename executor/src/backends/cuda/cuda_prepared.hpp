#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/cuda_communicator.hpp"
#include "backends/cuda/kernels/pooling.hpp"
#include "backends/cuda/runtime/gemm.hpp"
#include "backends/cuda/tiles/tile_reduction.hpp"
#include "backends/cuda/transports/transport.hpp"
#include "run_mode.hpp"
#include "stage.hpp"

namespace mc2::executor::cuda {

/// A stage list bound to device buffers. Each rank's whole pipeline is one CUDA graph per run mode, captured when the
/// mode first runs (Fused while preparing) and replayed after. What enqueue() submits takes no times and has a graph of
/// its own; of matrices that come by rebind() there is one for each that come again. The times of single stages that
/// wait for one another are taken by launching them one by one instead; where a lane just runs, its time is shared
/// among its stages by rows.
///
/// Where the transport carries several blocks by one kernel, that kernel starts with the graph, and every block's
/// matmul is followed by an announcement on a stream of its own.
///
/// A block passes the lanes in the transport's slices, each with matmuls of its own. Where slices arrive from peers
/// their matmuls take turns on two streams, so that one fills the SMs that the last wave of the one before leaves idle.
///
/// The lanes meet in the exchange memory: the partial product [m, n] of kinds that multiply first, the gathered A [m,
/// k] of kinds that gather first. Blocks of a kind with row shards lie in it one after the other, each with its rows of
/// every shard side by side, so that a block's collective is contiguous.
///
/// Where the variant stores tiles, fused runs are TileReduction's, without lanes and exchange memory, and so is the
/// lanes' matmul: one kernel, whose products lie shard after shard, as in A.
class CudaPrepared final : public Prepared {
 public:
  /// The arguments have been checked; `communicator` and the buffers outlive *this.
  CudaPrepared(CudaCommunicator& communicator, const StageList& stages, const CudaVariant& variant,
               std::unique_ptr<Transport> transport, std::span<const RankBuffers> buffers);
  ~CudaPrepared() override;

  /// Before all else, once: memory, matmuls, graphs. Order: *collective*.
  /// Errors: Unsupported, naming the rank and what its device refused; the communicator goes on. Throws SystemError
  /// where that cannot be.
  [[nodiscard]] planner::Result<void> make_ready(const PrepareOptions& options);

  using Prepared::run;
  const RunRecord& run(RunMode mode, RunDetail detail) override;
  [[nodiscard]] planner::Result<void> enqueue(std::span<void* const> streams, Submission submission) override;
  [[nodiscard]] PeerReach peer_reach() const noexcept override { return reach_of(*transport_, list_.first_lane); }
  [[nodiscard]] planner::Result<void> rebind(std::span<const RankBuffers> buffers) override;

 private:
  /// A, B, C and the gathered A of one rank, by address.
  using MatrixAddresses = std::array<const void*, 4>;

  /// Fused runs on matrices that were bound later: captured when they come again, because most programs go round the
  /// same memory.
  struct MovedGraph {
    int use_count = 0;
    GraphExec graph;
  };

  struct StageEvents {
    Event start, end;
  };

  /// Everything of one rank; touched by its thread alone once it is built.
  struct RankState {
    RankBuffers buffers;
    Event last_use;            ///< the end of the run that was enqueued last
    RankBuffers prepared_with; ///< as aligned as those of later runs must be
    std::unique_ptr<DeviceMemory> exchange;
    std::unique_ptr<DeviceMemory> spare;               ///< used by the communication lane of RunMode::Independent
    std::unique_ptr<DeviceMemory> staging;             ///< where stages_pieces()
    std::unique_ptr<DeviceMemory> tile_memory;         ///< for CudaVariant::stores_tiles
    std::unique_ptr<TileReduction> tiles;              ///< does fused runs instead of the lanes
    std::unique_ptr<DeviceMemory> transposed_b;        ///< [n, k], of f8e4m3 where the caller's is [k, n]
    std::optional<Gemm> local_gemm;                    ///< of kinds that gather first
    std::vector<std::vector<std::vector<Gemm>>> gemms; ///< by stage and slice
    BagTables tables;                                  ///< of kinds that pool bags, which have no matmuls
    std::unique_ptr<MappedWord> bag_fault;             ///< of those
    std::vector<Gemm> serial_gemms; ///< by stage, of kinds that gather first: all shards, the rank's own included
    std::array<GraphExec, kRunModeCount> graphs; ///< of run(), by RunMode
    GraphExec enqueued_graph;                    ///< of enqueue()
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
    std::byte *a, *c, *exchange, *spare, *staging, *tiles;
  };

  /// What is being enqueued, and for which rank.
  struct Job {
    int rank;
    RunMode mode;
    RunDetail detail;
    bool is_timed = true; ///< else nobody reads when it began and ended
  };

  [[nodiscard]] std::unique_ptr<DeviceMemory> make_exchange(int rank, std::size_t byte_count);
  [[nodiscard]] static MatrixAddresses addresses_of(const RankBuffers& buffers) noexcept;
  [[nodiscard]] RankState& state_of(int rank) noexcept { return ranks_[communicator_.local_index(rank)]; }
  [[nodiscard]] const RankState& state_of(int rank) const noexcept { return ranks_[communicator_.local_index(rank)]; }
  void share_places();
  void replace(int rank, const RankBuffers& next);
  void make_memory(int rank, const PrepareOptions& options);
  void build(int rank);
  void build_tiles(int rank);
  void build_gemms(int rank);
  void bind_tiles(int rank);
  void transpose_b(int rank);
  [[nodiscard]] bool is_b_transposed(int rank) const noexcept {
    return state_of(rank).transposed_b || state_of(rank).buffers.b_is_transposed;
  }
  [[nodiscard]] GemmOperands operands_of(int rank, const std::byte* a, std::int64_t b_offset, std::byte* c) const;
  void build_tables(int rank);
  [[nodiscard]] PoolingRun pooling_of(int rank, std::size_t stage, int slice) const;
  void require_legal_bags(int rank) const;
  [[nodiscard]] Gemm make_gemm(int rank, GemmContext& context, GemmShape shape, std::int64_t from_row,
                               std::int64_t to_row);
  [[nodiscard]] Gemm make_block_gemm(int rank, GemmContext& context, const Stage& stage, int first_shard,
                                     int last_shard);
  [[nodiscard]] Gemm make_column_gemm(int rank, GemmContext& context, const Stage& stage);
  [[nodiscard]] std::vector<Gemm> make_slice_gemms(int rank, std::size_t stage, int slice);
  [[nodiscard]] bool uses_two_streams() const noexcept { return cuda::uses_two_streams(list_, variant_); }
  [[nodiscard]] bool carries_at_once(RunMode mode) const noexcept;
  [[nodiscard]] Stage whole() const noexcept;
  [[nodiscard]] bool is_on_second_stream(std::size_t stage, int slice) const noexcept;
  void build_local_gemm(int rank);
  [[nodiscard]] BlockExchange exchange_of(std::size_t stage, RunMode mode) const;
  [[nodiscard]] std::vector<BlockExchange> exchanges(std::size_t count, RunMode mode) const;
  [[nodiscard]] std::size_t shortest_span();
  [[nodiscard]] std::size_t spanned(RunMode mode, RunDetail detail) const noexcept;
  /// Whether a graph of this mode takes times between stages. A node that takes the time costs microseconds, and where
  /// lanes run side by side it ties them together (docs/gpu.md), so there are no more of them.
  [[nodiscard]] bool stamps_lengths(RunMode mode) const noexcept;
  /// Whether a graph of this mode takes the time when the own shard's matmul has ended.
  [[nodiscard]] static bool stamps_local(RunMode mode) noexcept {
    return mode == RunMode::ComputeOnly || mode == RunMode::Independent;
  }
  /// Whether a graph of this mode takes the time when each lane has ended: not where they wait for one another, nor of
  /// what Serial does.
  [[nodiscard]] static bool times_lanes(RunMode mode) noexcept { return mode != RunMode::Fused && !is_serial(mode); }
  [[nodiscard]] bool is_stamped(planner::Lane lane, RunMode mode, std::size_t stage) const noexcept;
  [[nodiscard]] Job enqueued_job(int rank) const noexcept {
    return {rank, mode_of(list_, RunMode::Fused), RunDetail::Makespan, false};
  }
  void capture(int rank, RunMode mode);
  void capture_enqueued(int rank);
  [[nodiscard]] GraphExec captured(const Job& job);
  [[nodiscard]] cudaGraphExec_t graph_for_bound_matrices(int rank);
  void forget_graphs();
  void register_windows(int rank);
  void check_takes_no_sm(int rank);
  void enqueue(const Job& job);
  void enqueue_behind(int rank, cudaStream_t stream, Submission submission);
  void enqueue_streams(const Job& job);
  void enqueue_lanes(const Job& job);
  void enqueue_tiles(const Job& job);
  void enqueue_products(const Job& job);
  void take_kernel_times(const Job& job, Event StageEvents::*event);
  void enqueue_span(const Job& job);
  void enqueue_serial(const Job& job);
  void enqueue_local(const Job& job);
  void enqueue_compute(const Job& job, std::size_t stage, int slice);
  void enqueue_work(int rank, std::size_t stage, int slice, cudaStream_t stream) const;
  void enqueue_communication(const Job& job, std::size_t stage, int slice);
  void enqueue_gathered_a(const Job& job);
  void read_times(int rank, RunMode mode, bool has_stages);
  void share_lane_time(planner::Lane lane, RunMode mode, std::chrono::nanoseconds start, int rank);
  void finish_record(bool has_stages);

  CudaCommunicator& communicator_;
  StageList list_;
  CudaVariant variant_;
  std::unique_ptr<Transport> transport_;
  bool gathers_first_;
  bool cuts_columns_; ///< stages count columns of B and C then
  bool is_ready_ = false;
  bool has_stale_graphs_ = false; ///< captured with matrices that have been replaced since
  /// blocks, from the first on, that one kernel carries in runs that are not timed by stage
  std::size_t span_length_ = 0;
  std::vector<RankState> ranks_; ///< the local ones, in their order
  std::vector<Places> places_;   ///< by rank, of the whole world
  /// shared with all that use the same allocations: other processes' places
  std::vector<std::shared_ptr<std::byte>> mappings_;
  RunRecord record_;
};

} // namespace mc2::executor::cuda
