#pragma once

#include <chrono>
#include <thread>

// Helpers for threads that poll.
namespace mc2::executor {

/// Tells the processor that this thread only polls, so that the other hyper-thread gets more of the core.
inline void relax_processor() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// The pauses of a thread that polls. At first it yields the core, so that a short wait ends at once; later it sleeps,
/// so that a long wait takes no core from the matmul.
class Patience {
 public:
  /// @param sleep      length of a pause after the first `yield_for`; 0: always yields
  Patience(std::chrono::microseconds sleep, std::chrono::microseconds yield_for) noexcept
      : sleep_(sleep), sleep_from_(std::chrono::steady_clock::now() + yield_for) {}

  void pause() const noexcept {
    if (sleep_.count() == 0 || std::chrono::steady_clock::now() < sleep_from_)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(sleep_);
  }

 private:
  std::chrono::microseconds sleep_;
  std::chrono::steady_clock::time_point sleep_from_;
};

} // namespace mc2::executor
