#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

namespace mc2::executor::cuda {

/// Throw SystemError with the call's text, the library's code and the library's message. Name `rank` unless it is
/// negative.
void check(cudaError_t code, const char* call, int rank = -1);
void check(CUresult code, const char* call, int rank = -1);
void check(ncclResult_t code, const char* call, int rank = -1);
void check(cublasStatus_t code, const char* call, int rank = -1);

/// Logs a failure where throwing is not possible.
void log_failure(cudaError_t code, const char* call) noexcept;

} // namespace mc2::executor::cuda

/// Makes a call of CUDA, NCCL or cuBLASLt and checks its result.
#define MC2_CUDA(call) ::mc2::executor::cuda::check((call), #call)
