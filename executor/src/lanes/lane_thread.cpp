#include "lanes/lane_thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "named_range.hpp"

namespace mc2::executor::lanes {
namespace {

/// The thread's name, which top and perf show. Linux allows 15 characters.
std::string thread_name(int rank, planner::Lane lane) {
  return (lane == planner::Lane::Compute ? "mc2-matmul-" : "mc2-comm-") + std::to_string(rank);
}

/// The first version of the kernel's struct sched_attr, which not every C library declares.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};

/// Asks the kernel for short time slices, so that a lane with a little work preempts the matmul on the same core and
/// does not wait for the end of its slice, about 3 ms. Kernels before 6.12 ignore this, which only costs speed.
void ask_for_short_slices() {
  SchedulingAttributes attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0); // unchanged; the call sets it together with the slice
  attributes.runtime_ns = 100'000;                // the shortest that the kernel grants
  syscall(SYS_sched_setattr, 0, &attributes, 0U);
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

LaneThread::~LaneThread() {
  if (process_.is_inherited())
    thread_.detach(); // the thread exists only in the parent, and joining it would wait for ever
  else
    command_.poison();
}

void LaneThread::post(LaneTask& task) noexcept {
  task_ = &task;
  command_.add();
}

void LaneThread::loop() noexcept {
  const char* const range_name = lane_ == planner::Lane::Compute ? "mc2 compute lane" : "mc2 communication lane";
  NamedRange::set_up();
  prctl(PR_SET_TIMERSLACK, 1UL); // ns; the default rounds sleeps up by 50 us
  if (lane_ == planner::Lane::Communication) ask_for_short_slices();
  while (command_.wait_at_least(1, Clock::time_point::max()) == WaitResult::Reached) {
    command_.reset();
    {
      const NamedRange range(range_name, rank_);
      task_->run_lane(rank_, lane_);
    }
    completion_.lane_finished();
  }
}

} // namespace mc2::executor::lanes
