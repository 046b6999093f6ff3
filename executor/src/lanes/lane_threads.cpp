#include "lanes/lane_threads.hpp"

#include <omp.h>

#include <exception>

#include "run_mode.hpp"

namespace mc2::executor::lanes {
namespace {

constexpr planner::Lane kLanes[] = {planner::Lane::Compute, planner::Lane::Communication};

class CallTask final : public LaneTask {
 public:
  CallTask(const std::function<void(int)>& work, int first_rank, std::size_t rank_count)
      : work_(work), first_rank_(first_rank), errors_(rank_count) {}

  void run_lane(int rank, planner::Lane /*lane*/) noexcept override {
    try {
      work_(rank);
    } catch (...) {
      errors_[static_cast<std::size_t>(rank - first_rank_)] = std::current_exception();
    }
  }

  void rethrow_first() const {
    for (const auto& error : errors_) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  const std::function<void(int)>& work_;
  int first_rank_;
  std::vector<std::exception_ptr> errors_; ///< by rank, from the first on
};

} // namespace

LaneThreads::LaneThreads(int first_rank, int rank_count, const CoreLayout& layout, int first_place)
    : first_rank_(first_rank) {
  for (int rank = first_rank; rank < first_rank + rank_count; ++rank) {
    compute_.push_back(std::make_unique<LaneThread>(rank, planner::Lane::Compute, completion_));
    communication_.push_back(std::make_unique<LaneThread>(rank, planner::Lane::Communication, completion_));
  }
  for (const auto lane : kLanes) {
    call(lane, [&](int rank) {
      const auto cores = layout.cores_of(first_place + rank - first_rank, lane);
      // Pinned before the thread's first parallel region, so that OpenMP's threads inherit the cores.
      if (!cores.empty()) pin_current_thread(cores, rank);
      omp_set_num_threads(lane == planner::Lane::Compute ? layout.compute_thread_count() : 1);
    });
  }
}

void LaneThreads::call(planner::Lane lane, const std::function<void(int)>& work) {
  CallTask task(work, first_rank_, compute_.size());
  completion_.expect(static_cast<int>(compute_.size()));
  post(task, lane);
  (void)completion_.wait(Clock::time_point::max());
  task.rethrow_first();
}

void LaneThreads::start(LaneTask& task, RunMode mode) noexcept {
  const bool has_both = runs_lane(mode, planner::Lane::Compute) && runs_lane(mode, planner::Lane::Communication);
  completion_.expect((has_both ? 2 : 1) * static_cast<int>(compute_.size()));
  for (const auto lane : kLanes) {
    if (runs_lane(mode, lane)) post(task, lane);
  }
}

void LaneThreads::post(LaneTask& task, planner::Lane lane) noexcept {
  for (const auto& thread : lane == planner::Lane::Compute ? compute_ : communication_) thread->post(task);
}

} // namespace mc2::executor::lanes
