#include "backends/cuda/runtime/rank_workers.hpp"

#include <utility>

#include "named_range.hpp"

namespace mc2::executor::cuda {

RankWorkers::RankWorkers(std::span<const int> ranks) {
  try {
    for (const int rank : ranks) {
      Worker& worker = *workers_.emplace_back(std::make_unique<Worker>(rank));
      worker.thread = std::jthread([this, &worker](const std::stop_token& stop) { serve(worker, stop); });
    }
  } catch (...) { // a thread could not be started: the started ones wait for their semaphores
    end_all();
    throw;
  }
}

RankWorkers::~RankWorkers() { end_all(); }

void RankWorkers::end_all() noexcept {
  for (const auto& worker : workers_) {
    worker->thread.request_stop();
    worker->start.release();
  }
  workers_.clear(); // joins
}

void RankWorkers::run(const std::function<void(int)>& work, const std::function<void()>& on_failure) {
  work_ = &work;
  on_failure_ = &on_failure;
  has_failed_ = false;
  for (const auto& worker : workers_) worker->start.release();
  for (std::size_t i = 0; i < workers_.size(); ++i) finished_.acquire();
  if (has_failed_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void RankWorkers::serve(Worker& self, const std::stop_token& stop) {
  NamedRange::set_up();
  for (;;) {
    self.start.acquire();
    if (stop.stop_requested()) return;
    try {
      (*work_)(self.rank);
    } catch (...) {
      if (!has_failed_.exchange(true)) {
        failure_ = std::current_exception();
        if (*on_failure_) (*on_failure_)();
      }
    }
    finished_.release();
  }
}

} // namespace mc2::executor::cuda
