#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace mc2::executor {

/// Calls `work` on a thread of its own when the deadline passes, unless *this is destroyed before.
class AfterDeadline {
 public:
  AfterDeadline(std::chrono::milliseconds deadline, std::function<void()> work)
      : thread_([this, deadline, work = std::move(work)](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, stop, deadline, [] { return false; }) && !stop.stop_requested()) work();
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_; ///< declared last: it uses the members above
};

} // namespace mc2::executor
