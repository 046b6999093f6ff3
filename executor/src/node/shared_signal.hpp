#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace mc2::executor::node {

/// What a waiting thread does between two looks: leaves its core to others for a moment, or throws to give up.
using Pause = std::function<void()>;

/// A count in memory that several processes have mapped: its owner raises it, anyone waits. What was written before
/// add() is visible after a wait that it satisfied. Counts wrap: those compared are less than 2^31 apart.
class alignas(64) SharedSignal {
 public:
  void add() noexcept;

  /// Until the count is `count` or beyond. Looks at it `looks` times, some microseconds by default, yields the core
  /// some times, and then sleeps, so that more ranks than cores do not keep each other from arriving; then `pause` is
  /// called every `sleep_for`.
  void wait_for(std::uint32_t count, const Pause& pause, int looks = kFewLooks,
                std::chrono::microseconds sleep_for = kLongSleep) const;
  static constexpr int kFewLooks = 200;
  static constexpr std::chrono::microseconds kLongSleep{20'000};

  [[nodiscard]] bool has_reached(std::uint32_t count) const noexcept;

 private:
  /// For so long at most, while the count is below `count`.
  void sleep(std::uint32_t count, std::chrono::microseconds longest) const noexcept;

  std::atomic<std::uint32_t> count_{0};
  mutable std::atomic<std::uint32_t> sleeper_count_{0};
};

} // namespace mc2::executor::node
