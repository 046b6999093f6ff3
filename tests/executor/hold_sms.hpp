#pragma once

#include <cuda_runtime_api.h>

namespace mc2::testing {

/// A kernel that takes `sm_count` whole SMs until the word, in memory that the device reads, is no longer 0, or for 10
/// s.
cudaError_t hold_sms(int sm_count, const unsigned* release, cudaStream_t stream);

} // namespace mc2::testing
