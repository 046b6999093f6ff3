#include "lanes/signal.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace mc2::executor::lanes {
namespace {

constexpr std::uint32_t kPoisonBit = 0x80000000U;

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

void wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

/// Sleeps while the word has this value. Returns false if the deadline has passed. FUTEX_WAIT_BITSET takes an absolute
/// time of CLOCK_MONOTONIC, which is steady_clock.
bool sleep_while_equal(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                       Clock::time_point deadline) noexcept {
  const auto since_epoch = deadline.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  timespec until{};
  until.tv_sec = static_cast<time_t>(seconds.count());
  until.tv_nsec = static_cast<long>(std::chrono::nanoseconds(since_epoch - seconds).count());
  const timespec* limit = deadline == Clock::time_point::max() ? nullptr : &until;
  const long rc =
      syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value, limit, nullptr, FUTEX_BITSET_MATCH_ANY);
  return rc == 0 || errno != ETIMEDOUT;
}

} // namespace

void Signal::add() noexcept {
  // Sequentially consistent, as the two operations of the waiter are: either this thread sees the sleeper, or the
  // sleeper sees the new value.
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) wake_all(value_);
}

void Signal::reset() noexcept { value_.fetch_and(kPoisonBit, std::memory_order_acq_rel); }

void Signal::poison() noexcept {
  value_.fetch_or(kPoisonBit, std::memory_order_acq_rel);
  wake_all(value_);
}

bool Signal::is_poisoned() const noexcept { return (value_.load(std::memory_order_acquire) & kPoisonBit) != 0; }

std::uint32_t Signal::count() const noexcept { return value_.load(std::memory_order_acquire) & ~kPoisonBit; }

WaitResult Signal::wait_at_least(std::uint32_t count, Clock::time_point deadline) const noexcept {
  if (const std::uint32_t value = value_.load(std::memory_order_acquire); value >= count && (value & kPoisonBit) == 0)
    return WaitResult::Reached;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const WaitResult result = sleep_until_at_least(count, deadline);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

WaitResult Signal::sleep_until_at_least(std::uint32_t count, Clock::time_point deadline) const noexcept {
  bool in_time = true;
  for (;;) {
    const std::uint32_t value = value_.load(std::memory_order_seq_cst);
    if ((value & kPoisonBit) != 0) return WaitResult::Aborted;
    if (value >= count) return WaitResult::Reached;
    if (!in_time) return WaitResult::TimedOut;
    in_time = sleep_while_equal(value_, value, deadline);
  }
}

} // namespace mc2::executor::lanes
