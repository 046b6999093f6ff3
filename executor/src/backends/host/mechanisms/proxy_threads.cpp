#include "backends/host/mechanisms/proxy_threads.hpp"

#include <bit>

#include "backends/host/mechanisms/waiting.hpp"
#include "lanes/combine.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::host {

lanes::WaitResult carry_out(const Put& put, const lanes::RunControl& control) noexcept {
  if (put.credit != nullptr && !poll([&] { return put.credit->count() >= put.credit_count; })) {
    const lanes::WaitResult waited = put.credit->wait_at_least(put.credit_count, control.deadline());
    if (waited != lanes::WaitResult::Reached) return waited;
  }
  if (control.has_failed()) return lanes::WaitResult::Aborted;
  lanes::copy_to_landing(put.landing, put.to, 0, {put.from, put.byte_count});
  put.arrived->add();
  return lanes::WaitResult::Reached;
}

ProxyThread::ProxyThread(std::uint32_t capacity) : queue_(capacity), thread_([this] { loop(); }) {
  MC2_CHECK(std::has_single_bit(capacity), "a proxy's queue must go on at slot 0 when its counters start again");
}

ProxyThread::~ProxyThread() {
  if (process_.is_inherited()) {
    thread_.detach(); // the thread exists in the parent process only: joining it here would block for ever
    return;
  }
  wait_idle();
  is_stopping_.store(true, std::memory_order_relaxed);
  posted_.fetch_add(1, std::memory_order_release);
  posted_.notify_one();
}

void ProxyThread::post(const Put& put, const lanes::RunControl& control) noexcept {
  const std::uint32_t index = posted_.load(std::memory_order_relaxed);
  MC2_CHECK(index - taken_.load(std::memory_order_acquire) < queue_.size(), "more transfers than a proxy has room for");
  queue_[index % queue_.size()] = {put, &control};
  posted_.store(index + 1, std::memory_order_release);
  posted_.notify_one();
}

void ProxyThread::wait_idle() const noexcept {
  const std::uint32_t all = posted_.load(std::memory_order_acquire);
  for (std::uint32_t taken = taken_.load(std::memory_order_acquire); taken != all;
       taken = taken_.load(std::memory_order_acquire)) {
    taken_.wait(taken, std::memory_order_acquire);
  }
}

void ProxyThread::loop() noexcept {
  for (std::uint32_t index = 0;; ++index) {
    const auto is_posted = [&] { return posted_.load(std::memory_order_acquire) != index; };
    if (!poll(is_posted)) posted_.wait(index, std::memory_order_acquire);
    if (is_stopping_.load(std::memory_order_relaxed)) return;
    const Job& job = queue_[index % queue_.size()];
    // The result is ignored: in a run that fails nobody waits for the transfer.
    static_cast<void>(carry_out(job.put, *job.control));
    taken_.store(index + 1, std::memory_order_release);
    taken_.notify_one();
  }
}

void ProxyThreads::start() {
  if (!threads_.empty()) return;
  // At most three slices to each peer are under way: a lane that is ahead of its proxy soon waits for peers, and those
  // wait for the proxy.
  const auto capacity = std::bit_ceil(static_cast<std::uint32_t>(4 * world_size_));
  for (int rank = 0; rank < world_size_; ++rank) threads_.push_back(std::make_unique<ProxyThread>(capacity));
}

} // namespace mc2::executor::host
