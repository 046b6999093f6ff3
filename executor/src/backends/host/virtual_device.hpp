#pragma once

#include <memory>

#include "lanes/compute_device.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor::host {

/// Sleeps for the modelled time on an absolute schedule that starts with the run: a stage starts when the one before
/// it ended and its data was ready, and ends its modelled time later, however late the lane wakes up. Writes nothing.
[[nodiscard]] std::unique_ptr<lanes::ComputeDevice> make_virtual_device(int rank, const VirtualCompute& model);

} // namespace mc2::executor::host
