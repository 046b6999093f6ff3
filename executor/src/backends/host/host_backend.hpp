#pragma once

#include <memory>

#include "backends/host/stage_hook.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor::host {

/// The CPU of this machine: ranks in one process, matmul through oneDNN, collectives by direct read or messages.
[[nodiscard]] const Backend& host_backend() noexcept;

/// host_backend().open() with a hook on every stage, so that tests can make a lane fail or hang.
[[nodiscard]] Result<std::unique_ptr<Communicator>> open_host(const CommunicatorOptions& options, StageHook hook);

} // namespace mc2::executor::host
