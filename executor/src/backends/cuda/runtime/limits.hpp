#pragma once

namespace mc2::executor::cuda {

/// The largest number of ranks on one host.
inline constexpr int kMaxCudaRanks = 8;

} // namespace mc2::executor::cuda
