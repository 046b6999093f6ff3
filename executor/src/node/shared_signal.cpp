#include "node/shared_signal.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <thread>

#include "polling.hpp"

namespace mc2::executor::node {
namespace {

// Ranks that have a core each meet within microseconds; ranks that share cores meet within a few turns (docs/mpi.md).
constexpr int kYields = 200;

} // namespace

void SharedSignal::add() noexcept {
  // Sequentially consistent, as in sleep(): either the waiter sees the new count, or this thread sees the waiter.
  count_.fetch_add(1);
  if (sleeper_count_.load() != 0) syscall(SYS_futex, &count_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool SharedSignal::has_reached(std::uint32_t count) const noexcept {
  return static_cast<std::int32_t>(count_.load(std::memory_order_acquire) - count) >= 0;
}

void SharedSignal::wait_for(std::uint32_t count, const Pause& pause, int looks,
                            std::chrono::microseconds sleep_for) const {
  for (int look = 0; look < looks; ++look) {
    if (has_reached(count)) return;
    relax_processor();
  }
  for (int turn = 0; turn < kYields; ++turn) {
    if (has_reached(count)) return;
    std::this_thread::yield();
  }
  while (!has_reached(count)) {
    sleep(count, sleep_for);
    if (!has_reached(count)) pause();
  }
}

void SharedSignal::sleep(std::uint32_t count, std::chrono::microseconds longest) const noexcept {
  const timespec limit{.tv_sec = longest.count() / 1'000'000, .tv_nsec = longest.count() % 1'000'000 * 1000};
  sleeper_count_.fetch_add(1);
  const std::uint32_t seen = count_.load();
  // Not FUTEX_WAIT_PRIVATE: the waker is another process.
  if (static_cast<std::int32_t>(seen - count) < 0) syscall(SYS_futex, &count_, FUTEX_WAIT, seen, &limit, nullptr, 0);
  sleeper_count_.fetch_sub(1);
}

} // namespace mc2::executor::node
