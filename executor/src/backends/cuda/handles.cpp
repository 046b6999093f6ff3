#include "backends/cuda/handles.hpp"

#include <atomic>

namespace mc2::executor::cuda {

void destroy(cudaStream_t stream) noexcept { log_failure(cudaStreamDestroy(stream), "cudaStreamDestroy"); }
void destroy(cudaEvent_t event) noexcept { log_failure(cudaEventDestroy(event), "cudaEventDestroy"); }
void destroy(cudaGraphExec_t graph) noexcept { log_failure(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy"); }
void destroy(ncclComm_t communicator) noexcept { (void)ncclCommAbort(communicator); }
void destroy(cublasLtHandle_t library) noexcept { (void)cublasLtDestroy(library); }
void destroy(cublasLtMatmulDesc_t descriptor) noexcept { (void)cublasLtMatmulDescDestroy(descriptor); }
void destroy(cublasLtMatrixLayout_t layout) noexcept { (void)cublasLtMatrixLayoutDestroy(layout); }

Stream make_stream(bool is_urgent) {
  int least = 0;
  int greatest = 0;
  MC2_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  MC2_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, is_urgent ? greatest : least));
  return Stream(stream);
}

Event make_event(bool has_timing) {
  cudaEvent_t event = nullptr;
  MC2_CUDA(cudaEventCreateWithFlags(&event, has_timing ? cudaEventDefault : cudaEventDisableTiming));
  return Event(event);
}

// ncclMemAlloc rather than cudaMalloc: NCCL's symmetric kernels take no other memory, and peers map it alike.
DeviceMemory::DeviceMemory(int device, std::size_t byte_count) : device_(device), byte_count_(byte_count) {
  MC2_CUDA(cudaSetDevice(device));
  void* base = nullptr;
  check(ncclMemAlloc(&base, byte_count == 0 ? 1 : byte_count), "ncclMemAlloc", device);
  base_ = static_cast<std::byte*>(base);
}

DeviceMemory::~DeviceMemory() {
  log_failure(cudaSetDevice(device_), "cudaSetDevice");
  (void)ncclMemFree(base_);
}

void DeviceMemory::upload(std::span<const std::byte> from) {
  MC2_CHECK(from.size() <= byte_count_, "more bytes than the memory has");
  MC2_CUDA(cudaSetDevice(device_));
  MC2_CUDA(cudaMemcpy(base_, from.data(), from.size(), cudaMemcpyHostToDevice));
}

void DeviceMemory::download(std::span<std::byte> to) const {
  MC2_CHECK(to.size() <= byte_count_, "more bytes than the memory has");
  MC2_CUDA(cudaSetDevice(device_));
  MC2_CUDA(cudaMemcpy(to.data(), base_, to.size(), cudaMemcpyDeviceToHost));
}

MappedWord::MappedWord() {
  MC2_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&host_), sizeof *host_, cudaHostAllocMapped | cudaHostAllocPortable));
  MC2_CUDA(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device_), host_, 0));
  set(0);
}

MappedWord::~MappedWord() { log_failure(cudaFreeHost(host_), "cudaFreeHost"); }

void MappedWord::set(std::uint32_t value) noexcept {
  std::atomic_ref<std::uint32_t>(*host_).store(value, std::memory_order_release);
}

} // namespace mc2::executor::cuda
