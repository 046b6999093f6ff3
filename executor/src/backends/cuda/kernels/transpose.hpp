#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace mc2::executor::cuda {

/// Enqueues `to` [columns, rows] = the transpose of `from` [rows, columns]; both are row-major, with elements of one
/// byte. Throws SystemError.
void enqueue_transpose(const std::byte* from, std::byte* to, std::int64_t rows, std::int64_t columns,
                       cudaStream_t stream);

} // namespace mc2::executor::cuda
