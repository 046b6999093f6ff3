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

/// One transfer: waits until `credit` has reached `credit_count`, copies the bytes, then raises `arrived`.
struct Put {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t byte_count = 0;
  lanes::RowPitch landing; ///< layout of the bytes at `to`
  lanes::Signal* arrived = nullptr;
  const lanes::Signal* credit = nullptr; ///< null: the copy starts at once
  std::uint32_t credit_count = 0;
};

/// Carries out the transfer and returns Reached. Copies nothing, and says why, if the run is aborted or its deadline
/// passes before there is credit.
[[nodiscard]] lanes::WaitResult carry_out(const Put& put, const lanes::RunControl& control) noexcept;

/// A thread that carries out the transfers of one rank in the order in which the rank's lane posts them.
class ProxyThread {
 public:
  /// @param capacity  most transfers under way at a time; a power of two
  explicit ProxyThread(std::uint32_t capacity);
  ~ProxyThread();
  ProxyThread(const ProxyThread&) = delete;
  ProxyThread& operator=(const ProxyThread&) = delete;

  /// Hands a transfer over and returns. Only one thread may post. `control` and the memory that the put points to must
  /// stay valid until wait_idle() returns.
  void post(const Put& put, const lanes::RunControl& control) noexcept;
  /// Returns when every posted transfer has been carried out or, in a run that fails, dropped.
  void wait_idle() const noexcept;

 private:
  struct Job {
    Put put;
    const lanes::RunControl* control = nullptr;
  };

  void loop() noexcept;

  std::vector<Job> queue_; ///< job i lies in slot i modulo the length and is the proxy's while taken_ <= i < posted_
  alignas(64) std::atomic<std::uint32_t> posted_{0};
  alignas(64) std::atomic<std::uint32_t> taken_{0};
  std::atomic<bool> is_stopping_{false};
  ProcessMark process_;
  std::jthread thread_; ///< declared last: the thread uses the members above
};

/// One proxy thread per rank. The threads exist after the first start().
class ProxyThreads {
 public:
  explicit ProxyThreads(int world_size) : world_size_(world_size) {}

  /// Starts the threads unless they run already. Must not be called while a lane runs.
  void start();
  [[nodiscard]] ProxyThread& of(int rank) noexcept { return *threads_[static_cast<std::size_t>(rank)]; }

 private:
  int world_size_;
  std::vector<std::unique_ptr<ProxyThread>> threads_; ///< by rank; empty before start()
};

} // namespace mc2::executor::host
