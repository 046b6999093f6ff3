#pragma once

namespace mc2::executor::cuda {

/// A function of the driver's own interface (cuda.h), version 12.0. It is found at run time, so that a program starts
/// without a driver. Throws SystemError.
[[nodiscard]] void* driver_function(const char* name);

} // namespace mc2::executor::cuda
