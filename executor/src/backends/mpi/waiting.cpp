#include "backends/mpi/waiting.hpp"

#include <thread>

#include "backends/mpi/check.hpp"

namespace mc2::executor::mpi {
namespace {

// One test moves at most one read of each socket, 30 KiB; a link of 1 Gbit/s brings more while the lane sleeps.
constexpr int kTestsPerLook = 8;

} // namespace

void Patience::pause() const noexcept {
  if (sleep_.count() == 0 || Clock::now() < sleep_from_) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(sleep_);
  }
}

void wait_all(std::span<MPI_Request> requests, const Patience& patience, const std::function<void()>& keep_waiting) {
  for (int is_done = 0;;) {
    for (int test = 0; test < kTestsPerLook; ++test) {
      check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &is_done, MPI_STATUSES_IGNORE),
            "MPI_Testall");
      if (is_done != 0) return;
    }
    keep_waiting();
    patience.pause();
  }
}

} // namespace mc2::executor::mpi
