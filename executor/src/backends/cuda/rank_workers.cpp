#include "backends/cuda/rank_workers.hpp"

#include <utility>

namespace mc2::executor::cuda {

RankWorkers::RankWorkers(int rank_count) {
  for (int rank = 0; rank < rank_count; ++rank) workers_.push_back(std::make_unique<Worker>());
  for (int rank = 0; rank < rank_count; ++rank) { // all workers exist before any thread looks for its own
    workers_[static_cast<std::size_t>(rank)]->thread =
        std::jthread([this, rank](const std::stop_token& stop) { serve(rank, stop); });
  }
}

RankWorkers::~RankWorkers() {
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

void RankWorkers::serve(int rank, const std::stop_token& stop) {
  Worker& self = *workers_[static_cast<std::size_t>(rank)];
  for (;;) {
    self.start.acquire();
    if (stop.stop_requested()) return;
    try {
      (*work_)(rank);
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
