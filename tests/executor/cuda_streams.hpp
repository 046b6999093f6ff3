#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "backends/cuda/runtime/machine.hpp"

namespace mc2::testing {

/// One stream of the caller's for each rank, on the rank's device.
class Streams {
 public:
  explicit Streams(int rank_count) {
    for (int rank = 0; rank < rank_count; ++rank) {
      EXPECT_EQ(cudaSetDevice(executor::cuda::device_for(rank)), cudaSuccess);
      cudaStream_t stream = nullptr;
      EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
      handles_.push_back(stream);
    }
  }
  ~Streams() {
    for (void* handle : handles_) (void)cudaStreamDestroy(static_cast<cudaStream_t>(handle));
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  [[nodiscard]] std::span<void* const> handles() const { return handles_; }
  [[nodiscard]] cudaStream_t of(std::size_t rank) const { return static_cast<cudaStream_t>(handles_[rank]); }
  /// Waits until all that was enqueued is done.
  void wait() const {
    for (std::size_t rank = 0; rank < handles_.size(); ++rank) EXPECT_EQ(cudaStreamSynchronize(of(rank)), cudaSuccess);
  }

 private:
  std::vector<void*> handles_;
};

} // namespace mc2::testing
