#include "backends/mpi/placement.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "mc2/planner/text.hpp"

namespace mc2::executor::mpi {

Placement::Placement(const std::vector<int>& key_of_rank) {
  std::map<int, int> node_of_key;
  for (std::size_t rank = 0; rank < key_of_rank.size(); ++rank) {
    const auto [found, is_new] = node_of_key.try_emplace(key_of_rank[rank], node_count());
    if (is_new) ranks_of_node_.emplace_back();
    auto& ranks = ranks_of_node_[static_cast<std::size_t>(found->second)];
    node_of_rank_.push_back(found->second);
    place_of_rank_.push_back(static_cast<int>(ranks.size()));
    ranks.push_back(static_cast<int>(rank));
  }
}

Result<Placement> Placement::parse(const std::string& text, int world_size) {
  std::vector<int> keys;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (bool goes_on = true; goes_on;) {
    const auto read = std::from_chars(at, end, keys.emplace_back());
    goes_on = read.ec == std::errc() && read.ptr != end && *read.ptr == ',';
    if (read.ec != std::errc() || (!goes_on && read.ptr != end)) keys.clear();
    at = read.ptr + 1;
  }
  if (static_cast<int>(keys.size()) == world_size) return Placement(keys);
  return Error{
      ErrorCode::InvalidSpec, "MC2_PRETENDED_NODES",
      "\"" + text + "\" is not a number for each of " + std::to_string(world_size) + " ranks, with commas between"};
}

int Placement::largest_node_size() const noexcept {
  const auto largest = std::ranges::max_element(ranks_of_node_, {}, &std::vector<int>::size);
  return static_cast<int>(largest->size());
}

std::string Placement::text() const { return list_text(node_of_rank_, ","); }

} // namespace mc2::executor::mpi
