#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/host/mechanisms/proxy_threads.hpp"
#include "backends/host/stage_hook.hpp"
#include "backends/host/transports/transport.hpp"
#include "lanes/lane_threads.hpp"
#include "lanes/run_control.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/executor/process_mark.hpp"

namespace mc2::executor::host {

inline constexpr int kMaxHostRanks = 64; ///< each rank has two threads and, over tcp, a connection to every other rank

/// All ranks of a world in this process, each with a compute and a communication thread.
class HostCommunicator final : public Communicator {
 public:
  /// Starts, pins and sizes the lanes and connects the transport. The options are valid, with at most kMaxHostRanks
  /// ranks.
  /// Throws SystemError.
  HostCommunicator(const CommunicatorOptions& options, planner::Fingerprint fingerprint, StageHook hook);

  [[nodiscard]] int world_size() const noexcept override { return options_.world_size; }
  [[nodiscard]] std::span<const int> local_ranks() const noexcept override { return ranks_; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept override { return fingerprint_; }
  [[nodiscard]] bool uses_host_memory() const noexcept override { return true; }
  [[nodiscard]] std::unique_ptr<RankMemory> allocate(int rank, std::size_t byte_count) override;
  [[nodiscard]] Result<std::unique_ptr<Prepared>> prepare_stages(const StageList& stages,
                                                                 const planner::Variant& variant,
                                                                 std::span<const RankBuffers> buffers,
                                                                 const PrepareOptions& options) override;

  [[nodiscard]] const CommunicatorOptions& options() const noexcept { return options_; }
  [[nodiscard]] const StageHook& hook() const noexcept { return hook_; }
  /// The flag for RunTurn: set while a thread runs on this communicator.
  [[nodiscard]] std::atomic_flag& turn() noexcept { return turn_; }
  [[nodiscard]] lanes::RunControl& control() noexcept { return control_; }
  [[nodiscard]] Transport& transport() noexcept { return *transport_; }
  [[nodiscard]] ProxyThreads& proxies() noexcept { return proxies_; }

  /// Runs `task` on the lanes that `mode` uses and returns when the last lane has finished. The lanes exchange blocks
  /// through `transport`. `at_start` is called with the start time of the run before any lane wakes. Throws the
  /// SystemError of the first lane that failed. After a failure every later call throws SystemError, too.
  void execute(lanes::LaneTask& task, Transport& transport, RunMode mode,
               const std::function<void(lanes::Clock::time_point)>& at_start);

  /// Runs `work(rank)` once on the `lane` thread of every rank. Throws what the first failing rank threw.
  void call_on_lanes(planner::Lane lane, const std::function<void(int rank)>& work) { threads_->call(lane, work); }

  /// Records a failure and wakes every lane that waits.
  void fail(const SystemError& failure) noexcept;

 private:
  /// Throws SystemError after a failure, and in a child process, because fork() does not copy the lanes' threads.
  void throw_if_failed() const;

  CommunicatorOptions options_;
  planner::Fingerprint fingerprint_;
  StageHook hook_;
  ProcessMark process_;
  std::atomic_flag turn_;
  std::vector<int> ranks_;
  lanes::RunControl control_;
  std::unique_ptr<Transport> transport_;
  Transport* running_ = nullptr; ///< the transport of the present run, in which its lanes may wait
  ProxyThreads proxies_;
  // Declared last: the threads use all members above, so they must be joined before those are destroyed.
  std::unique_ptr<lanes::LaneThreads> threads_;
};

} // namespace mc2::executor::host
