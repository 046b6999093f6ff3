#pragma once

#include <string>
#include <vector>

#include "mc2/planner/error.hpp"

namespace mc2::executor::mpi {

/// Which ranks are on which node. Nodes are numbered from 0 in the order of their lowest rank.
class Placement {
 public:
  /// @param key_of_rank ranks with the same number are on one node
  explicit Placement(const std::vector<int>& key_of_rank);
  /// Reads such numbers from a text, e.g. "0,0,1,1", one for each of `world_size` ranks. Errors: InvalidSpec
  /// (MC2_PRETENDED_NODES).
  [[nodiscard]] static Result<Placement> parse(const std::string& text, int world_size);

  [[nodiscard]] int node_count() const noexcept { return static_cast<int>(ranks_of_node_.size()); }
  [[nodiscard]] int node_of(int rank) const noexcept { return node_of_rank_[static_cast<std::size_t>(rank)]; }
  /// In ascending order.
  [[nodiscard]] const std::vector<int>& ranks_of(int node) const noexcept {
    return ranks_of_node_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] int size_of(int node) const noexcept { return static_cast<int>(ranks_of(node).size()); }
  /// The index of `rank` in ranks_of() its node.
  [[nodiscard]] int place_of(int rank) const noexcept { return place_of_rank_[static_cast<std::size_t>(rank)]; }
  /// The rank of `node` that deals with `rank`, a rank of another node. The ranks of `node` share the ranks of another
  /// node evenly, to within one.
  [[nodiscard]] int partner_of(int rank, int node) const noexcept {
    return ranks_of(node)[static_cast<std::size_t>(place_of(rank) % size_of(node))];
  }
  [[nodiscard]] int largest_node_size() const noexcept;
  /// Whether there are several nodes and at least one of them has several ranks.
  [[nodiscard]] bool is_hierarchy() const noexcept { return node_count() > 1 && largest_node_size() > 1; }
  /// The node of each rank, e.g. "0,0,1,1".
  [[nodiscard]] std::string text() const;

 private:
  std::vector<int> node_of_rank_, place_of_rank_;
  std::vector<std::vector<int>> ranks_of_node_;
};

} // namespace mc2::executor::mpi
