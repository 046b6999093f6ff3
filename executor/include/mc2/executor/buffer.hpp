#pragma once

#include <cstddef>
#include <span>

namespace mc2::executor {

/// The caller's matrices of one rank, row-major and densely packed in the operator's element type. Never owned: they
/// must outlive every `Prepared` made from them. C must not overlap A, B or another rank's C.
struct RankBuffers {
  std::span<const std::byte> a; ///< [m, k]
  std::span<const std::byte> b; ///< [k, n]; read once, while preparing (weights are packed for the matmul library)
  std::span<std::byte> c;       ///< [m, n], written by every run
};

} // namespace mc2::executor
