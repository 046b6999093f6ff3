#include "backends/mpi/waiting.hpp"

#include <algorithm>
#include <array>

#include "backends/mpi/check.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::mpi {
namespace {

// A test moves the data that the sockets hold of one message, and costs a system call even if they hold none. So a look
// goes on while tests move data, and ends soon after. MPI does not say whether a test has moved data, but its duration
// does: the quickest test so far has found nothing, and copying the least data worth a test takes several times as
// long. kMostTests lets pause() be called even while data comes without end.
constexpr int kMovedFactor = 3;
constexpr int kEmptyTests = 2, kMostTests = 256;

template <typename Test>
void look_until(const Test& test, const Pause& pause) {
  auto quickest = Clock::duration::max();
  for (;;) {
    auto last = Clock::now();
    for (int empty = 0, left = kMostTests; empty < kEmptyTests && left > 0; --left) {
      if (test()) return;
      const auto now = Clock::now();
      quickest = std::min(quickest, now - last);
      empty = now - last < kMovedFactor * quickest ? empty + 1 : 0;
      last = now;
    }
    pause();
  }
}

} // namespace

void wait_all(std::span<MPI_Request> requests, const Pause& pause) {
  const auto test = [&] {
    int is_done = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &is_done, MPI_STATUSES_IGNORE),
          "MPI_Testall");
    return is_done != 0;
  };
  look_until(test, pause);
}

void wait_some(std::span<MPI_Request> requests, const Pause& pause, const std::function<bool()>& go_on) {
  std::array<int, kMostRequests> completed{};
  MC2_CHECK(requests.size() <= completed.size(), "too many requests to wait for at a time");
  const auto test = [&] {
    int count = 0;
    check(
        MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &count, completed.data(), MPI_STATUSES_IGNORE),
        "MPI_Testsome");
    return count != 0 && go_on();
  };
  look_until(test, pause);
}

} // namespace mc2::executor::mpi
