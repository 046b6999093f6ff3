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

/// What a rank's runs share: rank r works on device r.
struct RankDevice {
  std::unique_ptr<DevicePool> pool; ///< first: what follows lies in it
  Stream compute;
  Stream second_compute; ///< of plans whose matmuls take turns on two streams
  Stream communication;  ///< urgent: a collective holds up all ranks, a matmul only its own
  Stream announcements;  ///< of blocks, to kernels that wait for them
  std::unique_ptr<GemmContext> gemm;
  std::unique_ptr<GemmContext> second_gemm; ///< for second_compute, opened when first needed
  std::unique_ptr<DeviceMemory> signals;
  std::unique_ptr<DeviceMemory> mail;
  /// of the plan that was enqueued last, while it is there: plans share streams, signals and mail
  cudaEvent_t last_use = nullptr;
};

/// Addresses of every rank, by rank and in the order in which each named its own, as this process reaches them.
struct SharedAddresses {
  std::vector<std::vector<std::byte*>> of_rank;
  /// shared with all that use the same allocations: what keeps them mapped
  std::vector<std::shared_ptr<std::byte>> mappings;
};

/// Why nothing can be prepared or run: our streams are part of a capture.
inline constexpr const char* kInCapture =
    "a graph that is being captured holds a run of this communicator; end the capture first";

/// The ranks of a world, one GPU each: all of them in this process, each with a thread of its own, or one.
class CudaCommunicator final : public Communicator {
 public:
  /// Options are valid and the devices are there. Throws SystemError.
  /// @param group of the processes, where each holds one rank; null where this one holds all
  CudaCommunicator(const CommunicatorOptions& options, planner::Fingerprint fingerprint,
                   std::unique_ptr<ProcessGroup> group);
  ~CudaCommunicator() override;

  [[nodiscard]] int world_size() const noexcept override { return options_.world_size; }
  [[nodiscard]] std::span<const int> local_ranks() const noexcept override { return ranks_; }
  [[nodiscard]] std::span<const LocalRank> ranks_and_devices() const noexcept { return local_ranks_; }
  /// Which of this host's devices a local rank has.
  [[nodiscard]] int device_number(int rank) const noexcept { return local_ranks_[local_index(rank)].device; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept override { return fingerprint_; }
  [[nodiscard]] bool uses_host_memory() const noexcept override { return false; }
  [[nodiscard]] std::unique_ptr<RankMemory> allocate(int rank, std::size_t byte_count) override;
  [[nodiscard]] Result<void> share_error(const Result<void>& own) override;
  [[nodiscard]] Result<std::unique_ptr<Prepared>> prepare_stages(const StageList& stages,
                                                                 const planner::Variant& variant,
                                                                 std::span<const RankBuffers> buffers,
                                                                 const PrepareOptions& options) override;

  /// Where a local rank stands among them.
  [[nodiscard]] std::size_t local_index(int rank) const noexcept {
    return static_cast<std::size_t>(rank - ranks_.front());
  }
  /// RunTurn's.
  [[nodiscard]] std::atomic_flag& turn() noexcept { return turn_; }
  [[nodiscard]] RankDevice& device(int rank) noexcept { return devices_[static_cast<std::size_t>(rank)]; }
  /// Called on the rank's own thread.
  [[nodiscard]] GemmContext& second_gemm(int rank);
  /// Work of `stream` that no rank's passes before all ranks' have come to it. Called on the rank's own thread.
  void enqueue_meeting(int rank, cudaStream_t stream);
  [[nodiscard]] SignalMemory signals_of(int rank) const noexcept;
  [[nodiscard]] std::unique_ptr<Transport> make_transport(const planner::OpSpec& op, const CudaVariant& variant);

  /// Runs `work(rank)` on every rank's thread. The first failure stops every waiting kernel, and every later call
  /// throws. Throws SystemError, when the ranks' streams are idle or cannot be made so.
  void run(const std::function<void(int)>& work);
  /// Likewise what may be the first to exchange: where hosts are crossed NCCL connects ranks then, and waits without
  /// end, so that the deadline holds here.
  void run_while_connecting(const std::function<void(int)>& work);
  /// Runs `work(rank)` on every rank's thread, where no rank waits for another: what it throws is the error of all
  /// ranks and ends nothing. Order: *collective*. Errors: Unsupported, in the words of what `work` threw. Throws
  /// SystemError where another process is gone.
  [[nodiscard]] Result<void> attempt(const std::function<void(int)>& work);
  /// Whether every later call throws.
  [[nodiscard]] bool has_failed() const noexcept { return failure_.has_value(); }
  /// Every rank's addresses, of shareable memory of its device; null ones stay null.
  /// Order: *collective*. Throws SystemError. @param own by local rank, as many from each
  [[nodiscard]] SharedAddresses share(const std::vector<std::vector<std::byte*>>& own);
  /// The largest of all processes' numbers. Order: *collective*. Throws SystemError.
  [[nodiscard]] std::int64_t maximum(std::int64_t own);
  /// Makes the times of every rank those that its own process has taken. Order: *collective*. Throws SystemError.
  /// @param ranks by rank, with as many stages each
  void gather_times(std::vector<RankTimes>& ranks);
  /// Whether a graph that a caller is capturing holds a run, so that the rank's streams are part of that capture.
  [[nodiscard]] bool is_in_capture(int rank);
  /// Other processes' memory that runs under way may still use: unmapped when the communicator goes.
  void keep(std::vector<std::shared_ptr<std::byte>> mappings) {
    std::ranges::move(mappings, std::back_inserter(kept_mappings_));
  }
  /// Waits until `rank`'s `stream` is idle. Throws SystemError naming the rank after the deadline.
  void wait(int rank, cudaStream_t stream) const;
  /// Waits until what `event` recorded has ended, likewise.
  void wait(int rank, const Event& event) const;

 private:
  void open_device(int rank);
  void share_signals();
  /// Whether other ranks' devices may be of other hosts, whose memory none of these can reach.
  [[nodiscard]] bool crosses_hosts() const noexcept;
  [[nodiscard]] bool is_on_this_host(int rank) const noexcept;
  /// Of this process's rank, in a world that crosses hosts.
  [[nodiscard]] HostsPlace hosts_place();
  void abort() noexcept;
  void close_nccl() noexcept;
  void meet_before_closing() noexcept;
  /// What NCCL says of its connections, which nobody who only enqueues would notice; empty where all is well.
  [[nodiscard]] std::string nccl_fault();
  /// Ends NCCL's kernels when another process fails: they do not look at the abort word, and who only enqueues, and
  /// waits for its own stream, would wait for ever.
  void watch_for_nccl();
  /// Ends what all ranks do and wait for.
  void fail(const std::string& why) noexcept;
  /// Waits for a moment until nothing of an aborted run uses the matrices any more.
  void settle() noexcept;
  /// What all local ranks do together; a failure is every process's, and lasts. Throws what `work` throws.
  template <typename Work>
  auto together(const Work& work);
  /// What an NCCL communicator is opened with.
  struct NcclSettings {
    int cta_count = 0; ///< 0: NCCL's choice
    bool takes_no_sm = false;
    bool is_rail = false; ///< of the ranks of one number on all hosts
    auto operator<=>(const NcclSettings&) const = default;
  };

  /// One for each rail, or one for all.
  [[nodiscard]] ncclUniqueId agree_on_nccl_id(bool is_rail);
  /// By rank, null for those of other processes: the caller's where it need not be opened specially, else our own,
  /// opened when first needed.
  [[nodiscard]] std::vector<ncclComm_t> nccl(const NcclSettings& settings);
  [[nodiscard]] static NcclCommunicator open_nccl(const ncclUniqueId& id, int rank, int world_size,
                                                  const NcclSettings& settings, int named_rank);
  /// As open_nccl(), within the deadline and while no other rank fails.
  [[nodiscard]] NcclCommunicator open_nccl_between_hosts(const ncclUniqueId& id, int rank, int world_size,
                                                         const NcclSettings& settings);
  void wait_until(int rank, const char* call, const std::function<cudaError_t()>& query) const;
  /// What this process can say of a request before it takes memory. Errors: as prepare_stages.
  [[nodiscard]] Result<void> check_stages(const StageList& stages, const Result<CudaVariant>& variant,
                                          std::span<const RankBuffers> buffers);
  /// Errors: Unsupported when a rank's device and pool have less to give.
  [[nodiscard]] Result<void> check_free_memory(std::span<const std::int64_t> sizes_per_rank);
  /// Order: *collective*. Errors: as check_choices and check_choices_agree, the same on every rank. Throws SystemError.
  [[nodiscard]] Result<void> agree_on_choices(const planner::OpSpec& op, std::span<const RankBuffers> buffers);
  /// Which rows go where, once all ranks know what all say; nothing where pieces are dense and of one size.
  /// Order: *collective*. Errors: as check_splits_agree, the same on every rank. Throws SystemError.
  [[nodiscard]] Result<std::optional<RowRuns>> agree_on_rows(const planner::OpSpec& op,
                                                             std::span<const RankBuffers> buffers);
  /// Bytes of each memory that a rank takes for the plan.
  [[nodiscard]] std::vector<std::int64_t> sizes_of(const StageList& stages, const CudaVariant& variant,
                                                   const PrepareOptions& options);

  CommunicatorOptions options_;
  planner::Fingerprint fingerprint_;
  std::atomic_flag turn_;
  std::unique_ptr<ProcessGroup> group_; ///< null where this process holds all ranks
  std::vector<LocalRank> local_ranks_;  ///< that it holds
  std::vector<int> ranks_;              ///< their numbers
  RankWorkers workers_;
  std::optional<MappedWord> abort_word_;
  PeerMemory peer_memory_;
  SharedAddresses signal_addresses_;
  std::vector<std::shared_ptr<std::byte>> kept_mappings_;
  std::vector<RankDevice> devices_;                            ///< by rank; closed for those of other processes
  std::vector<SignalMemory> signals_;                          ///< by rank
  int least_sm_count_ = 0;                                     ///< of any rank's device
  std::mutex nccl_mutex_;                                      ///< of what follows
  std::map<NcclSettings, std::vector<NcclCommunicator>> nccl_; ///< by settings, then by rank
  std::optional<std::string> failure_;
  NcclClosing closing_;
  std::vector<ncclComm_t> meetings_; ///< by rank, of worlds that span hosts: for enqueue_meeting()
  std::jthread watch_;               ///< last: it uses the others
};

} // namespace mc2::executor::cuda
