#pragma once

#include "mc2/executor/backend.hpp"

namespace mc2::executor::cuda {

/// The NVIDIA GPUs of this machine, rank r on device r: matmul through cuBLASLt or a kernel of our own, collectives by
/// direct peer access, NCCL or copy engine. A build without CUDA lists the backend, too, and says what is missing.
[[nodiscard]] const Backend& cuda_backend() noexcept;

} // namespace mc2::executor::cuda
