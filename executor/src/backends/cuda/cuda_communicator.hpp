#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/cuda_checks.hpp"
#include "backends/cuda/runtime/device_pool.hpp"
#include "backends/cuda/runtime/gemm.hpp"
#include "backends/cuda/runtime/handles.hpp"
#include "backends/cuda/runtime/rank_workers.hpp"
#include "backends/cuda/transports/nccl_closing.hpp"
#include "backends/cuda/transports/peer_memory.hpp"
#include "backends/cuda/transports/transport.hpp"
#include "mc2/executor/backend.hpp"
#include "process_group.hpp"

namespace mc2::executor::cuda {

/// The streams and memory that all runs of a rank share. Two of the streams are opened by the first plan that uses
/// them, because CUDA has 32 hardware queues at most, and streams that share one wait for one another. If eight ranks
/// shared a device (ranks_per_device()), four streams each would take them all.
struct RankDevice {
  std::unique_ptr<DevicePool> pool; ///< declared first: the members below lie in it
  Stream compute;
  Stream second_compute; ///< open_second_compute(): for plans whose matmuls alternate between two streams
  Stream communication;  ///< urgent: a late collective delays all ranks, a late matmul only its own
  Stream announcements;  ///< open_announcements(): announces blocks to kernels that wait for them
  std::unique_ptr<GemmContext> gemm;
  std::unique_ptr<GemmContext> second_gemm; ///< for second_compute
  std::unique_ptr<DeviceMemory> signals;
  std::unique_ptr<DeviceMemory> mail;
  /// last use by the plan that was enqueued last, null if that plan is gone: plans share streams, signals and mail
  cudaEvent_t last_use = nullptr;
};

/// Every rank's addresses, as this process reaches them: by rank, then in the order in which the rank passed its own.
struct SharedAddresses {
  std::vector<std::vector<std::byte*>> of_rank;
  /// keeps the memory mapped; co-owned by all users of the same allocations
  std::vector<std::shared_ptr<std::byte>> mappings;
};

/// Error text: our streams are part of a capture, so nothing can be prepared or run.
inline constexpr const char* kInCapture =
    "a graph that is being captured holds a run of this communicator; end the capture first";

/// The ranks of a world, one GPU each. This process holds either all ranks, each with a thread of its own, or one rank.
class CudaCommunicator final : public Communicator {
 public:
  /// The options are valid and the devices exist. Throws SystemError.
  /// @param group the processes if each holds one rank; null if this process holds all ranks
  CudaCommunicator(const CommunicatorOptions& options, planner::Fingerprint fingerprint,
                   std::unique_ptr<ProcessGroup> group);
  ~CudaCommunicator() override;

  [[nodiscard]] int world_size() const noexcept override { return options_.world_size; }
  [[nodiscard]] std::span<const int> local_ranks() const noexcept override { return ranks_; }
  [[nodiscard]] std::span<const LocalRank> ranks_and_devices() const noexcept { return local_ranks_; }
  /// The number of a local rank's device on this host.
  [[nodiscard]] int device_number(int rank) const noexcept { return local_ranks_[local_index(rank)].device; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept override { return fingerprint_; }
  [[nodiscard]] bool uses_host_memory() const noexcept override { return false; }
  [[nodiscard]] std::unique_ptr<RankMemory> allocate(int rank, std::size_t byte_count) override;
  [[nodiscard]] Result<void> share_error(const Result<void>& own) override;
  [[nodiscard]] Result<std::unique_ptr<Prepared>> prepare_stages(const StageList& stages,
                                                                 const planner::Variant& variant,
                                                                 std::span<const RankBuffers> buffers,
                                                                 const PrepareOptions& options) override;

  /// The index of a local rank among the local ranks.
  [[nodiscard]] std::size_t local_index(int rank) const noexcept {
    return static_cast<std::size_t>(rank - ranks_.front());
  }
  /// The flag for RunTurn: set while a thread runs on this communicator.
  [[nodiscard]] std::atomic_flag& turn() noexcept { return turn_; }
  [[nodiscard]] RankDevice& device(int rank) noexcept { return devices_[static_cast<std::size_t>(rank)]; }
  /// Opens second_compute and second_gemm unless they are open. Called on the rank's own thread. Throws SystemError.
  void open_second_compute(int rank);
  /// Opens the stream unless it is open. Called on the rank's own thread. Throws SystemError.
  void open_announcements(int rank);
  /// Locked if ranks share a device: the process's ranks launch one after the other. CUDA seems to choose the hardware
  /// queue of a stream when work is put in it. If two ranks launch at once, streams of both can be in one queue, where
  /// what waits for a peer holds up that peer (docs/gpu_lab_notes.md). Throws SystemError after the deadline: a rank
  /// that launches more than its streams hold waits for peers that have not launched.
  [[nodiscard]] std::unique_lock<std::timed_mutex> launch_turn(int rank) const;
  /// Whether runs may be graphs of mc2's own. Not if so many ranks share a device that the branches of their graphs do.
  [[nodiscard]] static bool may_launch_graphs();
  /// Enqueues a meeting: later work of `stream` starts when all ranks' streams have reached the meeting. Called on the
  /// rank's own thread.
  void enqueue_meeting(int rank, cudaStream_t stream);
  [[nodiscard]] SignalMemory signals_of(int rank) const noexcept;
  [[nodiscard]] std::unique_ptr<Transport> make_transport(const planner::OpSpec& op, const CudaVariant& variant);

  /// Runs `work(rank)` on every local rank's thread. Throws SystemError once the ranks' streams are idle or cannot be
  /// made so. The first failure stops every waiting kernel, and every later call throws.
  void run(const std::function<void(int)>& work);
  /// Like run(), for work that may be the first exchange. Between hosts NCCL connects ranks at the first exchange and
  /// waits without limit, so the work fails here when the deadline passes.
  void run_while_connecting(const std::function<void(int)>& work);
  /// Runs `work(rank)` on every local rank's thread; no rank may wait for another there. A SystemError of `work`
  /// becomes the error of all ranks, and the communicator stays usable. Order: *collective*. Errors: Unsupported, in
  /// the words of that exception. Throws SystemError if another process is gone.
  [[nodiscard]] Result<void> attempt(const std::function<void(int)>& work);
  /// Whether a failure makes every later call throw.
  [[nodiscard]] bool has_failed() const noexcept { return failure_.has_value(); }
  /// Shares addresses in shareable memory of the ranks' devices. Null addresses, and those of other hosts, are null in
  /// the result.
  /// Order: *collective*. Throws SystemError.
  /// @param own by local rank, equally many of each
  [[nodiscard]] SharedAddresses share(const std::vector<std::vector<std::byte*>>& own);
  /// The maximum of `own` over all processes. Order: *collective*. Throws SystemError.
  [[nodiscard]] std::int64_t maximum(std::int64_t own);
  /// Replaces the times of every rank by those that the rank's own process has measured. Order: *collective*. Throws
  /// SystemError.
  /// @param ranks by rank, with the same number of stages each
  void gather_times(std::vector<RankTimes>& ranks);
  /// Whether a caller is capturing a graph that holds a run, which makes the rank's streams part of the capture.
  [[nodiscard]] bool is_in_capture(int rank);
  /// Keeps other processes' memory mapped until the communicator goes, because runs under way may still use it.
  void keep(std::vector<std::shared_ptr<std::byte>> mappings) {
    std::ranges::move(mappings, std::back_inserter(kept_mappings_));
  }
  /// Waits until `rank`'s `stream` is idle. Throws SystemError naming the rank after the deadline.
  void wait(int rank, cudaStream_t stream) const;
  /// Waits until the work before `event` has ended. Throws SystemError naming the rank after the deadline.
  void wait(int rank, const Event& event) const;

 private:
  void open_device(int rank);
  void share_signals();
  /// Whether ranks may be on other hosts, whose memory this one cannot reach.
  [[nodiscard]] bool crosses_hosts() const noexcept;
  [[nodiscard]] bool is_on_this_host(int rank) const noexcept;
  /// The place of this process's rank in a world that crosses hosts.
  [[nodiscard]] HostsPlace hosts_place();
  void abort() noexcept;
  void close_nccl() noexcept;
  void meet_before_closing() noexcept;
  /// The error that NCCL reports for its connections, empty if there is none. A caller that only enqueues would not
  /// notice it.
  [[nodiscard]] std::string nccl_fault();
  /// Starts a thread that ends NCCL's kernels when another process fails. They do not look at the abort word, so a
  /// caller that only enqueues, and waits for its own stream, would wait for ever.
  void watch_for_nccl();
  /// Records a failure and ends the work and the waits of all ranks.
  void fail(const std::string& why) noexcept;
  /// Waits, for at most a second, until no kernel of an aborted run uses the matrices.
  void settle() noexcept;
  /// Calls `work`, which all local ranks do together, and returns its result. A failure of `work` fails every process,
  /// for good. Throws what `work` throws.
  template <typename Work>
  auto together(const Work& work);
  /// The settings of an NCCL communicator.
  struct NcclSettings {
    int cta_count = 0; ///< 0: NCCL's choice
    bool takes_no_sm = false;
    bool is_rail = false; ///< connects the ranks of one number on all hosts
    auto operator<=>(const NcclSettings&) const = default;
  };

  /// Makes an id that all ranks of the communicator get: one per rail, or one for all ranks.
  [[nodiscard]] ncclUniqueId agree_on_nccl_id(bool is_rail);
  /// NCCL communicators by rank, null for ranks of other processes. Default settings: the caller's communicators if
  /// there are any. Else our own, opened at the first use.
  [[nodiscard]] std::vector<ncclComm_t> nccl(const NcclSettings& settings);
  [[nodiscard]] static NcclCommunicator open_nccl(const ncclUniqueId& id, int rank, int world_size,
                                                  const NcclSettings& settings, int named_rank);
  /// Like open_nccl(), but gives up at the deadline or when another rank fails.
  [[nodiscard]] NcclCommunicator open_nccl_between_hosts(const ncclUniqueId& id, int rank, int world_size,
                                                         const NcclSettings& settings);
  void wait_until(int rank, const char* call, const std::function<cudaError_t()>& query) const;
  /// The checks of a request that this process makes before it takes memory. Errors: as prepare_stages.
  [[nodiscard]] Result<void> check_stages(const StageList& stages, const Result<CudaVariant>& variant,
                                          std::span<const RankBuffers> buffers);
  /// Checks that each local rank's device and pool have so much memory. Errors: Unsupported.
  [[nodiscard]] Result<void> check_free_memory(std::span<const std::int64_t> sizes_per_rank);
  /// Checks that choices are legal and that all ranks have the same. Order: *collective*. Errors: as check_choices and
  /// check_choices_agree, the same on every rank. Throws SystemError.
  [[nodiscard]] Result<void> agree_on_choices(const planner::OpSpec& op, std::span<const RankBuffers> buffers);
  /// Exchanges the counts of all ranks and returns which rows go where; nothing if all pieces are dense and of one
  /// size.
  /// Order: *collective*. Errors: as check_splits_agree, the same on every rank. Throws SystemError.
  [[nodiscard]] Result<std::optional<RowRuns>> agree_on_rows(const planner::OpSpec& op,
                                                             std::span<const RankBuffers> buffers);
  /// Bytes of each piece of memory that a rank takes for the plan.
  [[nodiscard]] std::vector<std::int64_t> sizes_of(const StageList& stages, const CudaVariant& variant,
                                                   const PrepareOptions& options);

  CommunicatorOptions options_;
  planner::Fingerprint fingerprint_;
  std::atomic_flag turn_;
  std::unique_ptr<ProcessGroup> group_; ///< null if this process holds all ranks
  std::vector<LocalRank> local_ranks_;  ///< the ranks of this process
  std::vector<int> ranks_;              ///< numbers of the local ranks
  RankWorkers workers_;
  std::optional<MappedWord> abort_word_;
  PeerMemory peer_memory_;
  SharedAddresses signal_addresses_;
  std::vector<std::shared_ptr<std::byte>> kept_mappings_;
  std::vector<RankDevice> devices_;                            ///< by rank; empty for ranks of other processes
  std::vector<SignalMemory> signals_;                          ///< by rank
  int least_sm_count_ = 0;                                     ///< fewest SMs of a rank's device
  std::mutex nccl_mutex_;                                      ///< guards nccl_
  std::map<NcclSettings, std::vector<NcclCommunicator>> nccl_; ///< by settings, then by rank
  std::optional<std::string> failure_;
  NcclClosing closing_;
  std::vector<ncclComm_t> meetings_; ///< by rank, in worlds that span hosts: for enqueue_meeting()
  std::jthread watch_;               ///< declared last: it uses the members above
};

} // namespace mc2::executor::cuda
