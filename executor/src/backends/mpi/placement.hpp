#pragma once

#include <string>
#include <vector>

#include "mc2/planner/error.hpp"

namespace mc2::executor::mpi {

/// Which ranks are on which node. Nodes count from 0, in the order of their first rank.
class Placement {
 public:
  /// @param key_of_rank ranks with the same number are on one node
  explicit Placement(const std::vector<int>& key_of_rank);
  /// "0,0,1,1": such numbers, one for each of `world_size` ranks. Errors: InvalidSpec.
  [[nodiscard]] static Result<Placement> parse(const std::string& text, int world_size);

  [[nodiscard]] int node_count() const noexcept { return static_cast<int>(ranks_of_node_.size()); }
  [[nodiscard]] int node_of(int rank) const noexcept { return node_of_rank_[static_cast<std::size_t>(rank)]; }
  /// Ascending.
  [[nodiscard]] const std::vector<int>& ranks_of(int node) const noexcept {
    return ranks_of_node_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] int size_of(int node) const noexcept { return static_cast<int>(ranks_of(node).size()); }
  /// Where ranks_of() its node has it.
  [[nodiscard]] int place_of(int rank) const noexcept { return place_of_rank_[static_cast<std::size_t>(rank)]; }
  /// The rank of a node that stands for `rank`, of another one: each for as many of that one, give or take one.
  [[nodiscard]] int partner_of(int rank, int node) const noexcept {
    return ranks_of(node)[static_cast<std::size_t>(place_of(rank) % size_of(node))];
  }
  [[nodiscard]] int largest_node_size() const noexcept;
  /// Several nodes, of which one has several ranks.
  [[nodiscard]] bool is_hierarchy() const noexcept { return node_count() > 1 && largest_node_size() > 1; }
  /// By rank, "0,0,1,1".
  [[nodiscard]] std::string text() const;

 private:
  std::vector<int> node_of_rank_, place_of_rank_;
  std::vector<std::vector<int>> ranks_of_node_;
};

} // namespace mc2::executor::mpi
