#pragma once

#include <chrono>
#include <memory>

#include "backends/cuda/runtime/handles.hpp"

namespace mc2::executor::cuda {

/// Destroys NCCL's communicators without waiting for them. NCCL returns only when no captured graph holds the
/// communicator, and a program may destroy its graphs later, or never.
class NcclClosing {
 public:
  NcclClosing();
  /// Destroys the communicator on a thread of its own. Its kernels end at once. Threads: any.
  void start(NcclCommunicator communicator) noexcept;
  /// Waits until all started destructions have ended, but no longer than `at_most`. @return whether they have
  [[nodiscard]] bool wait(std::chrono::milliseconds at_most);

 private:
  struct State;
  std::shared_ptr<State> state_; ///< shared with the destroying threads, which may outlive *this
};

} // namespace mc2::executor::cuda
