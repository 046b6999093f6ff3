#pragma once

#include "simulated_gpu/faults.hpp"

namespace mc2::testing {

/// Whether the GPUs are on the CPU (simulated_gpu/device.hpp), where sizes that keep a real one busy take minutes.
inline bool are_gpus_simulated() noexcept { return simulated::fault_injection() != nullptr; }

} // namespace mc2::testing
