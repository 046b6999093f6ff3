#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "simulated_gpu/stream.hpp"

namespace mc2::simulated {

/// The contents of a simulated CUtensorMap: `count` row-major matrices, one after the other.
struct Tensor {
  std::byte* address = nullptr;
  std::int64_t columns = 0;
  std::int64_t rows = 0;
  std::int64_t count = 1;
};

/// Remembers the mangled name of a kernel's host function.
void register_kernel(const void* function, const char* name);

/// The CPU function that computes what this kernel computes with these arguments; nullopt for an unknown kernel.
[[nodiscard]] std::optional<Work> kernel_work(const void* function, void** arguments);

} // namespace mc2::simulated
