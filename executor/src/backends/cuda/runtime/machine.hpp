#pragma once

#include <string>

#include "mc2/executor/backend.hpp"
#include "mc2/planner/fingerprint.hpp"

namespace mc2::executor::cuda {

/// 0 where there is no driver or no device; `reason` then says why.
[[nodiscard]] int device_count(std::string* reason = nullptr) noexcept;

/// What variants depend on.
struct GpuTraits {
  int sm_count = 0;
  int compute_capability = 0; ///< 10 major + minor
};

/// Of a device. Throws SystemError.
[[nodiscard]] int compute_capability(int device);
inline constexpr int kHopper = 90; ///< whose own instructions tiles/ is made of
/// 90 as "9.0".
[[nodiscard]] std::string capability_text(int compute_capability);

/// Of device 0. Throws SystemError.
[[nodiscard]] int sm_count();
[[nodiscard]] GpuTraits gpu_traits();
[[nodiscard]] std::string device_name();
/// "CUDA 13.0, driver 13.0, cuBLASLt 13.1.0, NCCL 2.28.9".
[[nodiscard]] std::string software_text();

/// Whether the world's ranks are on several hosts.
[[nodiscard]] bool spans_hosts(const CommunicatorOptions& options) noexcept;

/// What makes times on these devices comparable. Throws SystemError.
[[nodiscard]] planner::Fingerprint cuda_fingerprint(const CommunicatorOptions& options);

} // namespace mc2::executor::cuda
