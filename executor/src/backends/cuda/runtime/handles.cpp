#include "backends/cuda/runtime/handles.hpp"

#include <algorithm>
#include <atomic>

#include "backends/cuda/runtime/cublas_lt.hpp"

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

GraphExec instantiate(cudaGraph_t graph, int rank) {
  cudaGraphExec_t executable = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
  log_failure(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(code, "cudaGraphInstantiate", rank);
  return GraphExec(executable);
}

cudaStreamCaptureStatus capture_status(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  MC2_CUDA(cudaStreamIsCapturing(stream, &status));
  return status;
}

bool is_capturing(cudaStream_t stream) { return capture_status(stream) == cudaStreamCaptureStatusActive; }

StreamCapture::StreamCapture(cudaStream_t stream) : stream_(stream) {
  // Relaxed: NCCL connects its ranks on first use, with calls that the stricter modes refuse.
  MC2_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
}

StreamCapture::~StreamCapture() {
  if (stream_ == nullptr) return;
  cudaGraph_t graph = nullptr;
  (void)cudaStreamEndCapture(stream_, &graph); // the reason for giving up has been reported already
  if (graph != nullptr) log_failure(cudaGraphDestroy(graph), "cudaGraphDestroy");
  (void)cudaGetLastError();
}

cudaGraph_t StreamCapture::end() {
  cudaGraph_t graph = nullptr;
  MC2_CUDA(cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph));
  return graph;
}

OnDevice::OnDevice(int device) noexcept {
  log_failure(cudaGetDevice(&before_), "cudaGetDevice");
  log_failure(cudaSetDevice(device), "cudaSetDevice");
}

OnDevice::~OnDevice() { log_failure(cudaSetDevice(before_), "cudaSetDevice"); }

MappedWord::MappedWord(std::size_t word_count) {
  const std::size_t size = word_count * sizeof *host_;
  MC2_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&host_), size, cudaHostAllocMapped | cudaHostAllocPortable));
  MC2_CUDA(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device_), host_, 0));
  std::fill_n(host_, word_count, 0U);
}

MappedWord::MappedWord(std::uint32_t* word, std::size_t page_bytes) : host_(word), is_own_(false) {
  MC2_CUDA(cudaHostRegister(host_, page_bytes, cudaHostRegisterMapped | cudaHostRegisterPortable));
  MC2_CUDA(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device_), host_, 0));
}

MappedWord::~MappedWord() {
  if (is_own_)
    log_failure(cudaFreeHost(host_), "cudaFreeHost");
  else
    log_failure(cudaHostUnregister(host_), "cudaHostUnregister");
}

void MappedWord::set(std::uint32_t value) noexcept {
  std::atomic_ref<std::uint32_t>(*host_).store(value, std::memory_order_release);
}

std::uint32_t MappedWord::get(std::size_t index) const noexcept {
  return std::atomic_ref<std::uint32_t>(host_[index]).load(std::memory_order_acquire);
}

} // namespace mc2::executor::cuda
