#include "backends/cuda/transports/nccl_closing.hpp"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace mc2::executor::cuda {

struct NcclClosing::State {
  std::mutex mutex;
  std::condition_variable changed;
  int open_count = 0;
};

NcclClosing::NcclClosing() : state_(std::make_shared<State>()) {}

void NcclClosing::start(NcclCommunicator communicator) noexcept {
  const ncclComm_t handle = communicator.release();
  const auto close = [state = state_, handle] {
    destroy(handle);
    const std::lock_guard lock(state->mutex);
    --state->open_count;
    state->changed.notify_all();
  };
  {
    const std::lock_guard lock(state_->mutex);
    ++state_->open_count;
  }
  try {
    std::thread(close).detach();
  } catch (const std::system_error&) { // no thread could be started
    close();
  }
}

bool NcclClosing::wait(std::chrono::milliseconds at_most) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, at_most, [this] { return state_->open_count == 0; });
}

} // namespace mc2::executor::cuda
