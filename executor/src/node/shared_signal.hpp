#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace mc2::executor::node {

/// Called by a waiting thread from time to time; throws to give up the wait.
using Pause = std::function<void()>;

/// A count in memory that several processes have mapped. Its owner raises it, and any process waits for it. Data
/// written before add() are visible after a wait that this add() has ended. Counts wrap around, so compared counts must
/// be less than 2^31 apart.
class alignas(64) SharedSignal {
 public:
  void add() noexcept;

  /// Waits until the count is at least `count`. Looks at it `looks` times, by default for some microseconds; then
  /// yields the core some times; then sleeps and calls `pause` every `sleep_for`. It sleeps because, with more ranks
  /// than cores, a spinning rank would keep others from running.
  void wait_for(std::uint32_t count, const Pause& pause, int looks = kFewLooks,
                std::chrono::microseconds sleep_for = kLongSleep) const;
  static constexpr int kFewLooks = 200;
  static constexpr std::chrono::microseconds kLongSleep{20'000};

  [[nodiscard]] bool has_reached(std::uint32_t count) const noexcept;

 private:
  /// Sleeps while the count is below `count`, for `longest` at most.
  void sleep(std::uint32_t count, std::chrono::microseconds longest) const noexcept;

  std::atomic<std::uint32_t> count_{0};
  mutable std::atomic<std::uint32_t> sleeper_count_{0};
};

} // namespace mc2::executor::node
