#include "absent_backend.hpp"
#include "backends/cuda/cuda_backend.hpp"

namespace mc2::executor::cuda {

const Backend& cuda_backend() noexcept {
  static const AbsentBackend kBackend(
      "cuda", "this build has no CUDA: it needs nvcc, cuBLASLt and NCCL 2.28 or later when mc2 is configured");
  return kBackend;
}

} // namespace mc2::executor::cuda
