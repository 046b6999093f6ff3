#pragma once

#include <string>
#include <vector>

namespace mc2::executor::mpi {

/// How fast messages travel between nodes, one pair against another.
class Links {
 public:
  /// Of two nodes, or of many that are all alike.
  explicit Links(int node_count);
  /// @param byte_us by node and node, symmetric: microseconds that a byte takes; the diagonal is not looked at
  explicit Links(const std::vector<std::vector<double>>& byte_us);

  /// How many times as long as the fastest pair's messages this pair's take, to the power of two below: 1 for less than
  /// twice, which noise and the way through switches make.
  [[nodiscard]] int slowness(int node, int other) const {
    return slowness_[static_cast<std::size_t>(node)][static_cast<std::size_t>(other)];
  }
  /// "0-2:8x,1-2:8x", the pairs that are slower than the fastest; empty where none is.
  [[nodiscard]] std::string text() const;
  /// The nodes in the order in which a ring had better pass them: none of its links is slower than need be, and as few
  /// as slow as that as can be. 0, 1, 2, ... where all links are alike.
  [[nodiscard]] std::vector<int> ring() const;

 private:
  [[nodiscard]] int node_count() const noexcept { return static_cast<int>(slowness_.size()); }
  [[nodiscard]] std::vector<int> nearest_first() const;

  std::vector<std::vector<int>> slowness_;
};

} // namespace mc2::executor::mpi
