#pragma once

#include <cuda_runtime_api.h>

namespace mc2::testing {

/// Launches a kernel that occupies `sm_count` whole SMs until `*release`, which the device must be able to read, is not
/// 0, but for at most 10 s.
cudaError_t hold_sms(int sm_count, const unsigned* release, cudaStream_t stream);

} // namespace mc2::testing
