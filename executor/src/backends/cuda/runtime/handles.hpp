#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {

/// Owner of one native handle. `kDestroy` releases the handle and is called for valid handles only. Move-only.
template <typename Handle, void (*kDestroy)(Handle) noexcept>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) noexcept : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != Handle{}) kDestroy(handle_);
  }
  [[nodiscard]] Handle get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != Handle{}; }
  /// Gives the handle up without releasing it.
  Handle release() noexcept { return std::exchange(handle_, Handle{}); }

 private:
  Handle handle_{};
};

void destroy(cudaStream_t stream) noexcept;
void destroy(cudaEvent_t event) noexcept;
void destroy(cudaGraphExec_t graph) noexcept;
void destroy(ncclComm_t communicator) noexcept;
void destroy(cublasLtHandle_t library) noexcept;
void destroy(cublasLtMatmulDesc_t descriptor) noexcept;
void destroy(cublasLtMatrixLayout_t layout) noexcept;

using Stream = Owned<cudaStream_t, &destroy>;
using Event = Owned<cudaEvent_t, &destroy>;
using GraphExec = Owned<cudaGraphExec_t, &destroy>;
using NcclCommunicator = Owned<ncclComm_t, &destroy>;
using BlasLibrary = Owned<cublasLtHandle_t, &destroy>;
using MatmulDescriptor = Owned<cublasLtMatmulDesc_t, &destroy>;
using MatrixLayout = Owned<cublasLtMatrixLayout_t, &destroy>;

/// A stream of the current device that is not ordered with the legacy default stream. Throws SystemError.
/// @param is_urgent its kernels get free SMs first
[[nodiscard]] Stream make_stream(bool is_urgent);
/// An event of the current device. Throws SystemError.
[[nodiscard]] Event make_event(bool has_timing);
/// Makes the graph executable and destroys it. Throws SystemError, which names `rank` unless it is negative.
[[nodiscard]] GraphExec instantiate(cudaGraph_t graph, int rank = -1);
/// Whether work that is given to the stream becomes part of a graph. Throws SystemError.
[[nodiscard]] bool is_capturing(cudaStream_t stream);
/// The capture status of the stream. Invalidated: a capture of it has failed and has to be ended. Throws SystemError.
[[nodiscard]] cudaStreamCaptureStatus capture_status(cudaStream_t stream);

/// A capture of a stream. The destructor gives it up, with all streams that have joined it, unless end() has been
/// called.
class StreamCapture {
 public:
  /// Throws SystemError.
  explicit StreamCapture(cudaStream_t stream);
  ~StreamCapture();
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;
  /// Ends the capture and returns its graph, which the caller destroys. Throws SystemError.
  [[nodiscard]] cudaGraph_t end();

 private:
  cudaStream_t stream_; ///< null after end()
};

/// Makes `device` the calling thread's current device until *this is destroyed, and then restores the one before: host
/// programs must keep the device that they have chosen.
class OnDevice {
 public:
  explicit OnDevice(int device) noexcept;
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

/// Words of page-locked host memory that the devices read and write through `device()`.
class MappedWord {
 public:
  /// Allocates `word_count` words, all 0. Throws SystemError.
  explicit MappedWord(std::size_t word_count = 1);
  /// Maps the existing page that starts at `word`; it outlives *this. Throws SystemError.
  explicit MappedWord(std::uint32_t* word, std::size_t page_bytes);
  ~MappedWord();
  MappedWord(const MappedWord&) = delete;
  MappedWord& operator=(const MappedWord&) = delete;

  void set(std::uint32_t value) noexcept;
  [[nodiscard]] std::uint32_t get(std::size_t index = 0) const noexcept;
  [[nodiscard]] std::uint32_t* device() const noexcept { return device_; }

 private:
  std::uint32_t* host_ = nullptr;
  std::uint32_t* device_ = nullptr;
  bool is_own_ = true;
};

} // namespace mc2::executor::cuda
