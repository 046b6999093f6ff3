#include "parallel.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace mc2::cli {
namespace {

constexpr auto kWatchInterval = std::chrono::milliseconds(100);

/// The state that the threads share.
class Crew {
 public:
  Crew(std::size_t count, int thread_count) : count_(count), busy_(thread_count) {}

  void run(const std::function<void(std::size_t)>& work, const std::function<bool()>& is_cancelled) {
    try {
      while (!has_failed_ && !is_cancelled()) {
        const std::size_t i = next_.fetch_add(1);
        if (i >= count_) break;
        work(i);
        done_.fetch_add(1);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!has_failed_.exchange(true)) failure_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) ended_.notify_one();
  }

  void wait(const std::function<void(std::size_t)>& watch) {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kWatchInterval, [this] { return busy_ == 0; })) {
      lock.unlock();
      watch(done_);
      lock.lock();
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::size_t count_;
  std::atomic<std::size_t> next_{0}, done_{0};
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_; ///< protects busy_ and failure_
  std::condition_variable ended_;
  int busy_;
  std::exception_ptr failure_;
};

} // namespace

void for_each_index(std::size_t count, int thread_count, const std::function<void(std::size_t)>& work,
                    const std::function<bool()>& is_cancelled, const std::function<void(std::size_t)>& watch) {
  Crew crew(count, thread_count);
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(thread_count));
    for (int i = 0; i < thread_count; ++i) threads.emplace_back([&] { crew.run(work, is_cancelled); });
    crew.wait(watch);
  }
  crew.rethrow();
}

} // namespace mc2::cli
