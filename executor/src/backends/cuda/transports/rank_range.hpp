#pragma once

namespace mc2::executor::cuda {

/// The ranks [first, last).
struct RankRange {
  int first = 0, last = 0;
};

} // namespace mc2::executor::cuda
