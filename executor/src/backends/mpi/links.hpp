#pragma once

#include <string>
#include <vector>

namespace mc2::executor::mpi {

/// How fast messages travel between nodes, relative to the fastest pair.
class Links {
 public:
  /// For two nodes, or for nodes whose links are all alike.
  explicit Links(int node_count);
  /// @param byte_us us per byte, by node and node, symmetric; the diagonal is ignored
  explicit Links(const std::vector<std::vector<double>>& byte_us);

  /// How many times longer this pair's messages take than the fastest pair's, rounded down to a power of two. Below 2
  /// the result is 1: noise and different ways through switches cause such differences.
  [[nodiscard]] int slowness(int node, int other) const {
    return slowness_[static_cast<std::size_t>(node)][static_cast<std::size_t>(other)];
  }
  /// The pairs that are slower than the fastest, e.g. "0-2:8x,1-2:8x"; empty if there is none.
  [[nodiscard]] std::string text() const;
  /// The best order of the nodes in a ring: its slowest link is as fast as possible, and then the sum of its slownesses
  /// is least. With more than 8 nodes a heuristic that goes to the nearest node next. 0, 1, 2, ... if all links are
  /// alike.
  [[nodiscard]] std::vector<int> ring() const;

 private:
  [[nodiscard]] int node_count() const noexcept { return static_cast<int>(slowness_.size()); }
  [[nodiscard]] std::vector<int> nearest_first() const;

  std::vector<std::vector<int>> slowness_;
};

} // namespace mc2::executor::mpi
