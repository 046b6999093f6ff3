#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "mc2/planner/op_spec.hpp"

namespace mc2::testing {

/// Rows from each rank to each, [from, to]: between 0 and `most`, half of them 0, no rank without any row in either
/// direction.
inline std::vector<std::int64_t> skewed_counts(int ranks, std::int64_t most, std::mt19937& random) {
  std::vector<std::int64_t> counts;
  for (int i = 0; i < ranks * ranks; ++i)
    counts.push_back(random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % static_cast<unsigned>(most + 1)));
  for (int rank = 0; rank < ranks; ++rank)
    counts[static_cast<std::size_t>(rank * ranks + (rank + 1) % ranks)] += most / 2 + 1;
  for (std::int64_t& count : counts) count = std::min(count, most);
  return counts;
}

/// How rows are shared among the experts of a rank: equally, each half of what those before it left, the e-th 1/e of
/// them as far as there are any, all to the last expert of rank 1, none, or by chance, half of them without any.
enum class Routing { Equal, Halves, Zipf, OneTakesAll, None, Random };
inline constexpr std::array kRoutings{Routing::Equal,       Routing::Halves, Routing::Zipf,
                                      Routing::OneTakesAll, Routing::None,   Routing::Random};

/// What every rank sends, RankBuffers::send_counts one below the other; no two ranks have more than m / ranks rows.
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
