#pragma once

#include <dlfcn.h>

/// Makes one call of a function of the CUDA runtime, NCCL or cuBLASLt fail: the call on `device` that follows
/// `calls_before` other calls of the function on that device.
/// @param code the cudaError_t that a runtime function returns; NCCL and cuBLASLt return an error of their own
extern "C" void mc2_simulated_gpu_fail(const char* call, int device, int calls_before, int code);

namespace mc2::simulated {

/// mc2_simulated_gpu_fail() for tests, which are not linked with the library; null where the GPUs are real.
inline auto fault_injection() noexcept {
  return reinterpret_cast<decltype(&mc2_simulated_gpu_fail)>(dlsym(RTLD_DEFAULT, "mc2_simulated_gpu_fail"));
}

} // namespace mc2::simulated
