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

inline constexpr int kMaxHostRanks = 64; ///< two threads each, and a mesh of connections with tcp

/// All ranks of a world in this process, each with a compute and a communication thread.
class HostCommunicator final : public Communicator {
 public:
  /// Options are valid, at most kMaxHostRanks ranks. Starts, pins and sizes the lanes, connects the transport.
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
  /// RunTurn's.
  [[nodiscard]] std::atomic_flag& turn() noexcept { return turn_; }
  [[nodiscard]] lanes::RunControl& control() noexcept { return control_; }
  [[nodiscard]] Transport& transport() noexcept { return *transport_; }
  [[nodiscard]] ProxyThreads& proxies() noexcept { return proxies_; }

  /// Runs `task`, whose lanes exchange blocks through `transport`, on the lanes that `mode` uses and returns when the
  /// last has finished. `at_start` is called with the run's start before any lane wakes. Throws the SystemError of the
  /// first lane that failed, and of every later run.
  void execute(lanes::LaneTask& task, Transport& transport, RunMode mode,
               const std::function<void(lanes::Clock::time_point)>& at_start);

  /// Runs `work(rank)` once on every rank's `lane` thread; throws what the first failing rank threw.
  void call_on_lanes(planner::Lane lane, const std::function<void(int rank)>& work) { threads_->call(lane, work); }

  /// Records a failure and wakes every lane that waits.
  void fail(const SystemError& failure) noexcept;

 private:
  /// Also in a child process, which has none of the lanes.
  void throw_if_failed() const;

  CommunicatorOptions options_;
  planner::Fingerprint fingerprint_;
  StageHook hook_;
  ProcessMark process_;
  std::atomic_flag turn_;
  std::vector<int> ranks_;
  lanes::RunControl control_;
  std::unique_ptr<Transport> transport_;
  Transport* running_ = nullptr; ///< what the present run's lanes may wait in
  ProxyThreads proxies_;
  // Last: the threads use everything above, and are joined first.
  std::unique_ptr<lanes::LaneThreads> threads_;
};

} // namespace mc2::executor::host
