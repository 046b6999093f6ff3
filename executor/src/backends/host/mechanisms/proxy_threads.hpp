#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "lanes/block_layout.hpp"
#include "lanes/run_control.hpp"
#include "lanes/signal.hpp"
#include "mc2/executor/process_mark.hpp"

namespace mc2::executor::host {

/// One transfer: when `credit` has reached `credit_count`, copy, then raise `arrived`.
struct Put {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t byte_count = 0;
  lanes::RowPitch landing; ///< of what is written at `to`
  lanes::Signal* arrived = nullptr;
  const lanes::Signal* credit = nullptr; ///< null: at once
  std::uint32_t credit_count = 0;
};

/// Copies and raises the signal, unless the run is aborted, or its deadline passes, before there is credit.
[[nodiscard]] lanes::WaitResult carry_out(const Put& put, const lanes::RunControl& control) noexcept;

/// A thread that carries out the transfers of one rank, in the order in which its lane posted them.
class ProxyThread {
 public:
  /// At most `capacity` transfers are under way at a time; a power of two.
  explicit ProxyThread(std::uint32_t capacity);
  ~ProxyThread();
  ProxyThread(const ProxyThread&) = delete;
  ProxyThread& operator=(const ProxyThread&) = delete;

  /// Hands a transfer over and returns. One thread posts. What the put points to, and `control`, outlive wait_idle().
  void post(const Put& put, const lanes::RunControl& control) noexcept;
  /// Until everything posted was carried out or, in a run that fails, dropped.
  void wait_idle() const noexcept;

 private:
  struct Job {
    Put put;
    const lanes::RunControl* control = nullptr;
  };

  void loop() noexcept;

  std::vector<Job> queue_; ///< job i, in slot i modulo the length, is the proxy's while taken_ <= i < posted_
  alignas(64) std::atomic<std::uint32_t> posted_{0};
  alignas(64) std::atomic<std::uint32_t> taken_{0};
  std::atomic<bool> is_stopping_{false};
  ProcessMark process_;
  std::jthread thread_; ///< last: starts when the members above exist
};

/// A proxy per rank, started when they are first asked for.
class ProxyThreads {
 public:
  explicit ProxyThreads(int world_size) : world_size_(world_size) {}

  /// Not while a lane runs.
  void start();
  [[nodiscard]] ProxyThread& of(int rank) noexcept { return *threads_[static_cast<std::size_t>(rank)]; }

 private:
  int world_size_;
  std::vector<std::unique_ptr<ProxyThread>> threads_; ///< by rank; none before start()
};

} // namespace mc2::executor::host
