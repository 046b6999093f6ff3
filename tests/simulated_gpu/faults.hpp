#pragma once

#include <dlfcn.h>

/// Makes one call of a function of CUDA's runtime, NCCL's or cuBLASLt's fail: that on `device` after `calls_before`
/// others there.
/// @param code cudaError_t's; those of the other libraries fail each in its own way
extern "C" void mc2_simulated_gpu_fail(const char* call, int device, int calls_before, int code);

namespace mc2::simulated {

/// For tests, which are not linked with the library: null where the GPUs are real ones.
inline auto fault_injection() noexcept {
  return reinterpret_cast<decltype(&mc2_simulated_gpu_fail)>(dlsym(RTLD_DEFAULT, "mc2_simulated_gpu_fail"));
}

} // namespace mc2::simulated
