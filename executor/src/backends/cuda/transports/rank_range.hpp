#pragma once

namespace mc2::executor::cuda {

/// The ranks from `first` to before `last`.
struct RankRange {
  int first = 0, last = 0;
};

} // namespace mc2::executor::cuda
