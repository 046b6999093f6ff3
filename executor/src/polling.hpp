#pragma once

#include <chrono>
#include <thread>

// What a thread does that polls for something.
namespace mc2::executor {

/// Lets the other hyper-thread, or an emulator, know that this one only polls.
inline void relax_processor() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Between two looks: yields the core at first, so that a short wait ends at once, and then sleeps, so that a long one
/// takes no core from the matmul.
class Patience {
 public:
  /// @param sleep between looks after the first `yield_for`; 0: never
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
