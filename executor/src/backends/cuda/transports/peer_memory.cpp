#include "backends/cuda/transports/peer_memory.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>

#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/runtime/driver.hpp"
#include "backends/cuda/runtime/handles.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::cuda {
namespace {

/// A handle stands for a whole allocation, so the offset of the address is sent with it.
struct Offer {
  cudaIpcMemHandle_t allocation;
  std::size_t offset;
};

static_assert(sizeof(Offer) == kOfferBytes);

std::size_t offset_in_allocation(const std::byte* address) {
  using GetRange = CUresult (*)(CUdeviceptr*, std::size_t*, CUdeviceptr);
  static const auto kGetRange = reinterpret_cast<GetRange>(driver_function("cuMemGetAddressRange"));
  CUdeviceptr base = 0;
  const auto place = reinterpret_cast<CUdeviceptr>(address);
  if (const CUresult code = kGetRange(&base, nullptr, place); code != CUDA_SUCCESS)
    throw SystemError("cuMemGetAddressRange", code, "the address is not in memory of the current device");
  return place - base;
}

} // namespace

bool is_shareable(const std::byte* address) {
  cudaIpcMemHandle_t handle{};
  const cudaError_t code = cudaIpcGetMemHandle(&handle, const_cast<std::byte*>(address));
  if (code != cudaSuccess) (void)cudaGetLastError(); // clears it
  return code == cudaSuccess;
}

std::string offer_of(const std::byte* address) {
  Offer offer{};
  MC2_CUDA(cudaIpcGetMemHandle(&offer.allocation, const_cast<std::byte*>(address)));
  offer.offset = offset_in_allocation(address);
  return {reinterpret_cast<const char*>(&offer), sizeof offer};
}

std::shared_ptr<std::byte> PeerMemory::open(std::string_view text) {
  MC2_CHECK(text.size() == sizeof(Offer), "offers are what offer_of() makes");
  Offer offer{};
  std::memcpy(&offer, text.data(), sizeof offer);
  auto& known = allocations_[std::string(text.substr(0, sizeof offer.allocation))];
  std::shared_ptr<std::byte> allocation = known.lock();
  if (!allocation) {
    void* base = nullptr;
    MC2_CUDA(cudaIpcOpenMemHandle(&base, offer.allocation, cudaIpcMemLazyEnablePeerAccess));
    int device = 0;
    MC2_CUDA(cudaGetDevice(&device));
    allocation = {static_cast<std::byte*>(base), [device](std::byte* mapped) {
                    const OnDevice on_device(device); // the last owner may be on another device
                    log_failure(cudaIpcCloseMemHandle(mapped), "cudaIpcCloseMemHandle");
                  }};
    known = allocation;
  }
  return {allocation, allocation.get() + offer.offset};
}

} // namespace mc2::executor::cuda
