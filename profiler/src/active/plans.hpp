#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "active/belief.hpp"
#include "mc2/planner/pipeline.hpp"
#include "mc2/profiler/active.hpp"

namespace mc2::profiler::active {

/// What is believed of a slow-down factor: normal, cut off at 1.
struct SlowdownBelief {
  double mean = 1;
  double deviation = 0;
};

struct Beliefs {
  LaneBelief matmul;
  LaneBelief collective;
  SlowdownBelief matmul_slowdown;
  SlowdownBelief collective_slowdown;
};

/// Cuts that may be the best one: those shortest by the mean of the beliefs, of every number and order of blocks.
/// Uncut and the incumbent are always among them; at most 96.
[[nodiscard]] std::vector<planner::Cut> plausible_cuts(const ActiveQuestion& question, const Beliefs& beliefs);

/// Everything that is uncertain, drawn together.
struct Draws {
  LaneDraws matmul;
  LaneDraws collective;
  Eigen::VectorXd matmul_slowdown;
  Eigen::VectorXd collective_slowdown;
  Eigen::MatrixXd makespans_us; ///< one row per draw, one column per cut
};

[[nodiscard]] Draws draw_makespans(const ActiveQuestion& question, const Beliefs& beliefs,
                                   std::span<const planner::Cut> cuts, std::span<const std::int64_t> other_sizes);

} // namespace mc2::profiler::active
