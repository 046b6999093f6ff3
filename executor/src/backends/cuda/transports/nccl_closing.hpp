#pragma once

#include <chrono>
#include <memory>

#include "backends/cuda/runtime/handles.hpp"

namespace mc2::executor::cuda {

/// Destroys NCCL's communicators without waiting for them: NCCL returns only when no captured graph holds one, and a
/// program may destroy its graphs later, or never.
class NcclClosing {
 public:
  NcclClosing();
  /// Its kernels end at once. Threads: any.
  void start(NcclCommunicator communicator) noexcept;
  /// Waits until all that have been started are gone. @return whether they are, after at most so long
  [[nodiscard]] bool wait(std::chrono::milliseconds at_most);

 private:
  struct State;
  std::shared_ptr<State> state_; ///< outlives *this for communicators that are never gone
};

} // namespace mc2::executor::cuda
