#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "simulated_gpu/stream.hpp"

namespace mc2::simulated {

/// What a CUtensorMap holds here: row-major matrices, one behind the other.
struct Tensor {
  std::byte* address = nullptr;
  std::int64_t columns = 0;
  std::int64_t rows = 0;
  std::int64_t count = 1;
};

/// Remembers the name, as the linker knows it, of a kernel's function on the host.
void register_kernel(const void* function, const char* name);

/// What a kernel of these arguments does; nothing where it is not one of those that are known.
[[nodiscard]] std::optional<Work> kernel_work(const void* function, void** arguments);

} // namespace mc2::simulated
