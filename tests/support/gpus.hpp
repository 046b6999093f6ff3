#pragma once

#include "simulated_gpu/faults.hpp"

namespace mc2::testing {

/// Whether the GPUs are simulated on the CPU (simulated_gpu/device.hpp), where sizes for a real GPU take minutes.
inline bool are_gpus_simulated() noexcept { return simulated::fault_injection() != nullptr; }

} // namespace mc2::testing
