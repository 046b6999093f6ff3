#pragma once

namespace mc2::executor::cuda {

/// A function of the driver's own interface (cuda.h), of version 12.0: found at run time, so that a program starts
/// without a driver. Throws SystemError.
[[nodiscard]] void* driver_function(const char* name);

} // namespace mc2::executor::cuda
