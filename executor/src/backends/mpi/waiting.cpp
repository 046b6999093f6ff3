#include "backends/mpi/waiting.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <thread>

#include "backends/mpi/check.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::mpi {
namespace {

// One test moves at most one read of each socket, 30 KiB, and a link brings more while the lane sleeps, or waits for a
// core that the matmul has: 8 us is such a read at 30 Gbit/s.
constexpr int kLeastTests = 8, kMostTests = 256;
constexpr std::chrono::microseconds kTimePerTest{8};

/// How often to test at each look: the more, the longer nobody has looked.
class Looks {
 public:
  [[nodiscard]] int tests_due() noexcept {
    const auto now = Clock::now();
    const auto due = (now - last_) / kTimePerTest;
    last_ = now;
    return static_cast<int>(std::clamp<std::int64_t>(due, kLeastTests, kMostTests));
  }

 private:
  Clock::time_point last_ = Clock::now();
};

template <typename Test>
void look_until(const Test& test, const Patience& patience, const std::function<void()>& keep_waiting) {
  for (Looks looks;;) {
    for (int left = looks.tests_due(); left > 0; --left) {
      if (test()) return;
    }
    keep_waiting();
    patience.pause();
  }
}

} // namespace

void Patience::pause() const noexcept {
  if (sleep_.count() == 0 || Clock::now() < sleep_from_) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(sleep_);
  }
}

void wait_all(std::span<MPI_Request> requests, const Patience& patience, const std::function<void()>& keep_waiting) {
  const auto test = [&] {
    int is_done = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &is_done, MPI_STATUSES_IGNORE),
          "MPI_Testall");
    return is_done != 0;
  };
  look_until(test, patience, keep_waiting);
}

void wait_some(std::span<MPI_Request> requests, const Patience& patience, const std::function<void()>& keep_waiting,
               const std::function<bool()>& go_on) {
  std::array<int, kMostRequests> completed{};
  MC2_CHECK(requests.size() <= completed.size(), "too many requests to wait for at a time");
  const auto test = [&] {
    int count = 0;
    check(MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &count, completed.data(),
                       MPI_STATUSES_IGNORE),
          "MPI_Testsome");
    return count != 0 && go_on();
  };
  look_until(test, patience, keep_waiting);
}

} // namespace mc2::executor::mpi
