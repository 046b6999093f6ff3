#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mc2::executor::lanes {

/// "AMD EPYC 9554", or "unknown" where /proc/cpuinfo does not say.
[[nodiscard]] std::string cpu_model();

/// Whether /proc/cpuinfo lists a CPU feature, e.g. "avx512_bf16".
[[nodiscard]] bool has_cpu_feature(std::string_view feature);

/// Memory that can still be used without swapping: the kernel's estimate, and no more than the control group allows.
/// The largest integer when neither can be read.
[[nodiscard]] std::int64_t available_memory_bytes();

} // namespace mc2::executor::lanes
