#pragma once

#include <memory>

#include "lanes/compute_device.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor::host {

/// A compute device that computes and writes nothing: it sleeps for the modelled time of each stage on an absolute
/// schedule that begins with the run. A stage starts when the stage before has ended and its data is ready, and ends
/// its modelled time later, however late the lane wakes up.
[[nodiscard]] std::unique_ptr<lanes::ComputeDevice> make_virtual_device(int rank, const VirtualCompute& model);

} // namespace mc2::executor::host
