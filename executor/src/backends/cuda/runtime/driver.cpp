#include "backends/cuda/runtime/driver.hpp"

#include <cuda_runtime_api.h>

#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {

void* driver_function(const char* name) {
  void* function = nullptr;
  MC2_CUDA(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, nullptr));
  return function;
}

} // namespace mc2::executor::cuda
