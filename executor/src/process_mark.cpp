#include "mc2/executor/process_mark.hpp"

#include <pthread.h>

#include <atomic>

namespace mc2::executor {
namespace {

/// The number of fork() calls between the first process that called this function and the present process.
std::atomic<std::uint64_t>& fork_count() noexcept {
  static std::atomic<std::uint64_t> count{0};
  static const int is_registered =
      pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(is_registered);
  return count;
}

} // namespace

ProcessMark::ProcessMark() noexcept : fork_count_(fork_count().load(std::memory_order_relaxed)) {}

bool ProcessMark::is_inherited() const noexcept { return fork_count().load(std::memory_order_relaxed) != fork_count_; }

} // namespace mc2::executor
