#include "parallel_for.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace mc2::executor {
namespace {

/// State that the threads of one loop share.
class Loop {
 public:
  Loop(std::int64_t count, const std::function<void(std::int64_t)>& work) : count_(count), work_(work) {}

  void run() noexcept {
    for (std::int64_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) {
      try {
        work_(i);
      } catch (...) {
        if (!has_failed_.test_and_set()) failure_ = std::current_exception();
        next_.store(count_);
      }
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::int64_t count_;
  const std::function<void(std::int64_t)>& work_;
  std::atomic<std::int64_t> next_{0};
  std::atomic_flag has_failed_;
  std::exception_ptr failure_; ///< read after the threads have been joined
};

} // namespace

void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  Loop loop(count, work);
  {
    const auto machine = static_cast<std::int64_t>(std::thread::hardware_concurrency());
    std::vector<std::jthread> others;
    for (std::int64_t i = 1; i < std::min(machine, count); ++i) others.emplace_back([&] { loop.run(); });
    loop.run();
  }
  loop.rethrow();
}

std::optional<std::int64_t> parallel_find_first(std::int64_t count, const std::function<bool(std::int64_t)>& is_found) {
  std::atomic<std::int64_t> first{count};
  parallel_for(count, [&](std::int64_t i) {
    if (i >= first.load() || !is_found(i)) return;
    for (std::int64_t known = first.load(); i < known && !first.compare_exchange_weak(known, i);) {
    }
  });
  if (first.load() == count) return std::nullopt;
  return first.load();
}

} // namespace mc2::executor
