#include "backends/host/lane_thread.hpp"

#include <pthread.h>
#include <sys/prctl.h>

#include <string>

namespace mc2::executor::host {
namespace {

/// Shows in top and perf; at most 15 characters.
std::string thread_name(int rank, planner::Lane lane) {
  return (lane == planner::Lane::Compute ? "mc2-matmul-" : "mc2-comm-") + std::to_string(rank);
}

} // namespace

void Completion::expect(int lane_count) noexcept {
  finished_.reset();
  running_.store(lane_count, std::memory_order_relaxed);
}

void Completion::lane_finished() noexcept {
  if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) finished_.add();
}

LaneThread::LaneThread(int rank, planner::Lane lane, Completion& completion)
    : rank_(rank), lane_(lane), completion_(completion), thread_([this] { loop(); }) {
  pthread_setname_np(thread_.native_handle(), thread_name(rank, lane).c_str());
}

LaneThread::~LaneThread() { command_.poison(); }

void LaneThread::post(LaneTask& task) noexcept {
  task_ = &task;
  command_.add();
}

void LaneThread::loop() noexcept {
  prctl(PR_SET_TIMERSLACK, 1UL); // ns; the default rounds sleeps up by 50 us
  while (command_.wait_at_least(1, Clock::time_point::max()) == WaitResult::Reached) {
    command_.reset();
    task_->run_lane(rank_, lane_);
    completion_.lane_finished();
  }
}

} // namespace mc2::executor::host
