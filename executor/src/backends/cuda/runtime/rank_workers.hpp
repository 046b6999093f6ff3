#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <semaphore>
#include <span>
#include <thread>
#include <vector>

namespace mc2::executor::cuda {

/// One thread per local rank. The rank's device stays current on its thread, which talks to the rank's communicator and
/// captures its graphs.
class RankWorkers {
 public:
  explicit RankWorkers(std::span<const int> ranks);
  ~RankWorkers();
  RankWorkers(const RankWorkers&) = delete;
  RankWorkers& operator=(const RankWorkers&) = delete;

  /// Runs `work(rank)` on all ranks' threads at once and returns when all have finished. Throws the exception of the
  /// rank that failed first, because failures of other ranks follow from it. That rank's thread calls `on_failure` at
  /// once, so that it can wake the others.
  void run(const std::function<void(int)>& work, const std::function<void()>& on_failure = {});

 private:
  struct Worker {
    int rank;
    std::binary_semaphore start{0};
    std::jthread thread;
  };

  void serve(Worker& self, const std::stop_token& stop);
  void end_all() noexcept;

  std::vector<std::unique_ptr<Worker>> workers_;
  const std::function<void(int)>* work_ = nullptr;
  const std::function<void()>* on_failure_ = nullptr;
  std::counting_semaphore<> finished_{0};
  std::atomic<bool> has_failed_ = false;
  std::exception_ptr failure_; ///< written by the rank that set has_failed_, read when all have finished
};

} // namespace mc2::executor::cuda
