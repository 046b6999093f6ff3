#pragma once

#include "mc2/executor/backend.hpp"

namespace mc2::executor::cuda {

/// NVIDIA GPUs of this machine, rank r on device r: matmul through cuBLASLt or a kernel of our own, collectives by
/// direct peer access, NCCL or copy engine. In a build without CUDA it is listed too and says what is missing.
[[nodiscard]] const Backend& cuda_backend() noexcept;

} // namespace mc2::executor::cuda
