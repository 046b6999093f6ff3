#pragma once

#include <string>

#include "mc2/executor/backend.hpp"
#include "mc2/planner/fingerprint.hpp"

namespace mc2::executor::cuda {

/// How many ranks share a device: 1, or for tests what MC2_RANKS_PER_DEVICE says (docs/contributing.md). With an
/// illegal value there is no device (device_count()). Where ranks share one, CUDA is told to load all kernels at once,
/// because loading one waits for kernels that run, and these may wait for the rank that loads.
[[nodiscard]] int ranks_per_device();
/// The number of devices that so many ranks of a host need, and the device of one of them. Ranks are numbered by host.
[[nodiscard]] int devices_for(int rank_count);
[[nodiscard]] int device_for(int rank);

/// The number of devices. 0 if there is no driver or no device; then `reason` says why.
[[nodiscard]] int device_count(std::string* reason = nullptr) noexcept;

/// The properties of a GPU on which variants depend.
struct GpuTraits {
  int sm_count = 0;
  int compute_capability = 0; ///< 10 major + minor
};

/// A device's compute capability as 10 major + minor, e.g. 90. Throws SystemError.
[[nodiscard]] int compute_capability(int device);
inline constexpr int kHopper = 90; ///< tiles/ uses instructions that only Hopper has
/// A compute capability as text, e.g. 90 as "9.0".
[[nodiscard]] std::string capability_text(int compute_capability);

/// These three describe device 0. Throw SystemError.
/// The SMs that a rank may use. Ranks that share a device have half of its SMs together, because kernels that wait for
/// peers keep their SMs, and the matmuls that peers wait for need some, too.
[[nodiscard]] int sm_count();
[[nodiscard]] GpuTraits gpu_traits();
[[nodiscard]] std::string device_name();
/// Versions as text, e.g. "CUDA 13.0, driver 13.0, cuBLASLt 13.1.0, NCCL 2.28.9". Throws SystemError.
[[nodiscard]] std::string software_text();

/// Whether the world's ranks are on several hosts.
[[nodiscard]] bool spans_hosts(const CommunicatorOptions& options) noexcept;

/// The fingerprint of the devices of such a world. Throws SystemError.
[[nodiscard]] planner::Fingerprint cuda_fingerprint(const CommunicatorOptions& options);

} // namespace mc2::executor::cuda
