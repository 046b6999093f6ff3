#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace mc2::executor::lanes {

using Clock = std::chrono::steady_clock;

enum class WaitResult : std::uint8_t { Reached, TimedOut, Aborted };

/// A count that one thread raises and others wait for, asleep. Safe to share. It never allocates, spins or takes a
/// mutex. Data written before add() are visible after a wait that this add() has ended.
class alignas(64) Signal {
 public:
  void add() noexcept;
  /// Back to zero; a poisoned signal stays poisoned. Nobody may be waiting.
  void reset() noexcept;
  /// Wakes every present and future waiter with Aborted. Cannot be undone.
  void poison() noexcept;
  [[nodiscard]] bool is_poisoned() const noexcept;
  [[nodiscard]] std::uint32_t count() const noexcept;

  /// Blocks until the count is at least `count`, the signal is poisoned, or `deadline` has passed. A poisoned signal
  /// always gives Aborted. Clock::time_point::max() waits for ever.
  [[nodiscard]] WaitResult wait_at_least(std::uint32_t count, Clock::time_point deadline) const noexcept;

 private:
  [[nodiscard]] WaitResult sleep_until_at_least(std::uint32_t count, Clock::time_point deadline) const noexcept;

  std::atomic<std::uint32_t> value_{0};            ///< the count; the top bit is set if poisoned
  mutable std::atomic<std::uint32_t> sleepers_{0}; ///< number of waiters; add() makes a system call only if it is not 0
};

} // namespace mc2::executor::lanes
