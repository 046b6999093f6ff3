#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "mc2/planner/op_spec.hpp"

namespace mc2::testing {

/// Rows from each rank to each, [from, to]: between 0 and `most`, about half of them 0. Every rank sends and receives
/// at least one row.
inline std::vector<std::int64_t> skewed_counts(int ranks, std::int64_t most, std::mt19937& random) {
  std::vector<std::int64_t> counts;
  for (int i = 0; i < ranks * ranks; ++i)
    counts.push_back(random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % static_cast<unsigned>(most + 1)));
  for (int rank = 0; rank < ranks; ++rank)
    counts[static_cast<std::size_t>(rank * ranks + (rank + 1) % ranks)] += most / 2 + 1;
  for (std::int64_t& count : counts) count = std::min(count, most);
  return counts;
}

/// How rows are shared among the experts of a rank.
enum class Routing {
  Equal,       ///< the same number for each
  Halves,      ///< each gets half of the rows that are left
  Zipf,        ///< the e-th gets 1/e of all rows while rows are left
  OneTakesAll, ///< the last expert of rank 1 gets all
  None,        ///< nobody gets any
  Random       ///< by chance, about half of them without any
};
inline constexpr std::array kRoutings{Routing::Equal,       Routing::Halves, Routing::Zipf,
                                      Routing::OneTakesAll, Routing::None,   Routing::Random};

/// RankBuffers::send_counts of all ranks, one after the other. No rank sends more than m / ranks rows to another.
inline std::vector<std::int64_t> expert_counts(Routing routing, const planner::OpSpec& op, std::mt19937& random) {
  const std::int64_t most = op.m / op.world_size, experts = op.experts_per_rank;
  std::vector<std::int64_t> counts;
  for (int pair = 0; pair < op.world_size * op.world_size; ++pair) {
    const bool is_dispatch = op.kind == planner::OpKind::AllToAllMatmul;
    const int holder = is_dispatch ? pair % op.world_size : pair / op.world_size;
    std::int64_t left = most;
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      std::int64_t count = most / experts;
      if (routing == Routing::Halves) count = (left + 1) / 2;
      if (routing == Routing::Zipf) count = most / (1 + expert);
      if (routing == Routing::None) count = 0;
      if (routing == Routing::OneTakesAll) count = holder == 1 && expert == experts - 1 ? most : 0;
      if (routing == Routing::Random) count = random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random()) % (left + 1);
      counts.push_back(std::min(left, count));
      left -= counts.back();
    }
  }
  return counts;
}

} // namespace mc2::testing
