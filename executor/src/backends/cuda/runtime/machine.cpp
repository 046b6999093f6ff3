#include "backends/cuda/runtime/machine.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/runtime/cublas_lt.hpp"
#include "backends/cuda/runtime/limits.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {
namespace {

/// CUDA's version number as text, e.g. 13010 as "13.1".
std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string runtime_version() {
  int version = 0;
  MC2_CUDA(cudaRuntimeGetVersion(&version));
  return cuda_version_text(version);
}

std::string driver_version() {
  int version = 0;
  MC2_CUDA(cudaDriverGetVersion(&version));
  return cuda_version_text(version);
}

std::string blas_version() {
  const auto version = cublasLtGetVersion(); // 130100: 13.1.0
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

std::string nccl_version() {
  int version = 0;
  MC2_CUDA(ncclGetVersion(&version));
  return planner::nccl_version(std::to_string(version));
}

/// The link between the first `count` devices, or within the only one, with the class of the slowest pair as the driver
/// ranks it: 0 is the fastest path between two devices of the machine.
std::string link_text(int count) {
  if (count == 1) return "shared device";
  int slowest = 0;
  bool has_atomics = true;
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      if (from == to) continue;
      int rank = 0;
      int atomics = 0;
      MC2_CUDA(cudaDeviceGetP2PAttribute(&rank, cudaDevP2PAttrPerformanceRank, from, to));
      MC2_CUDA(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to));
      slowest = std::max(slowest, rank);
      has_atomics = has_atomics && atomics != 0;
    }
  }
  // Native atomics between devices need NVLink; PCI Express has none.
  return std::string(has_atomics ? "nvlink" : "pcie") + ", peer class " + std::to_string(slowest);
}

/// Why no device was counted.
std::string missing_text(cudaError_t code) {
  if (code == cudaSuccess || code == cudaErrorNoDevice) return "this machine has no CUDA device";
  // The runtime returns this code, too, if there is no driver at all.
  if (code == cudaErrorInsufficientDriver)
    return "there is no NVIDIA driver, or it is older than CUDA " + runtime_version() + " needs";
  return cudaGetErrorString(code);
}

/// The value of MC2_RANKS_PER_DEVICE; 1 without one. Errors: InvalidSpec.
Result<int> read_ranks_per_device() {
  const char* const text = std::getenv("MC2_RANKS_PER_DEVICE");
  if (text == nullptr || *text == '\0') return 1;
  const std::string_view given = text;
  int count = 0;
  const auto [end, code] = std::from_chars(given.data(), given.data() + given.size(), count);
  if (code != std::errc() || end != given.data() + given.size() || count < 1 || count > kMaxCudaRanks)
    return Error{ErrorCode::InvalidSpec, "MC2_RANKS_PER_DEVICE",
                 "is \"" + std::string(given.substr(0, 64)) + "\"; legal: 1 to " + std::to_string(kMaxCudaRanks)};
  if (count > 1) { // before CUDA starts; what the user has set stays
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  }
  return count;
}

const Result<int>& shared_by() {
  static const Result<int> kRead = read_ranks_per_device();
  return kRead;
}

cudaDeviceProp properties() {
  cudaDeviceProp found{};
  MC2_CUDA(cudaGetDeviceProperties(&found, 0));
  return found;
}

} // namespace

int ranks_per_device() {
  const auto& read = shared_by();
  return read ? read.value() : 1;
}

int devices_for(int rank_count) { return static_cast<int>(planner::ceil_div(rank_count, ranks_per_device())); }

int device_for(int rank) { return rank / ranks_per_device(); }

int device_count(std::string* reason) noexcept {
  if (const auto& read = shared_by(); !read) { // the first call also sets what CUDA reads when it starts
    if (reason != nullptr) *reason = read.error().text();
    return 0;
  }
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return count;
  (void)cudaGetLastError(); // clears it
  if (reason != nullptr) *reason = missing_text(code);
  return 0;
}

int sm_count() {
  int count = 0;
  MC2_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
  return ranks_per_device() == 1 ? count : std::max(1, count / (2 * ranks_per_device()));
}

int compute_capability(int device) {
  int major = 0;
  int minor = 0;
  MC2_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  MC2_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

std::string capability_text(int compute_capability) {
  return std::to_string(compute_capability / 10) + "." + std::to_string(compute_capability % 10);
}

GpuTraits gpu_traits() { return {sm_count(), compute_capability(0)}; }

std::string device_name() { return properties().name; }

std::string software_text() {
  return "CUDA " + runtime_version() + ", driver " + driver_version() + ", cuBLASLt " + blas_version() + ", NCCL " +
         nccl_version();
}

bool spans_hosts(const CommunicatorOptions& options) noexcept {
  return options.process && options.process->spans_hosts();
}

planner::Fingerprint cuda_fingerprint(const CommunicatorOptions& options) {
  planner::Fingerprint found{
      .fields = {{"backend", "cuda"},
                 {"cublaslt", blas_version()},
                 {"cuda_driver", driver_version()},
                 {"cuda_runtime", runtime_version()},
                 {"gpu_model", device_name()},
                 {"link", spans_hosts(options) ? "network" : link_text(devices_for(options.world_size))},
                 {"nccl", nccl_version()},
                 {"ranks", std::to_string(options.world_size)},
                 {"sm_count", std::to_string(sm_count())}}};
  if (ranks_per_device() > 1) found.fields["ranks_per_device"] = std::to_string(ranks_per_device());
  if (!spans_hosts(options)) return found;
  const int here = options.process->local_size;
  found.fields["ranks_per_host"] = std::to_string(here);
  if (here > 1) found.fields["link_in_host"] = link_text(devices_for(here));
  return found;
}

} // namespace mc2::executor::cuda
