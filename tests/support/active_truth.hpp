#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "mc2/profiler/active.hpp"

namespace mc2::testing {

/// A machine with affine costs: what each visit would measure.
struct ActiveTruth {
  planner::OpSpec op;
  double compute_alpha_us = 10, compute_us_per_row = 1;
  double communication_alpha_us = 20, communication_us_per_row = 2;
  double compute_slowdown = 1.1, communication_slowdown = 1.2;
  int noise_percent = 0; ///< each time is off by a factor within 1 +- this
  std::uint64_t seed = 1;

  [[nodiscard]] std::vector<planner::Sample> measure(const profiler::ActiveCase& one, int round) const {
    using planner::Component, planner::Context;
    if (one.target == profiler::ActiveTarget::BothLanes)
      return {sample(Component::Matmul, Context::CoRun, one.block_rows, round),
              sample(Component::Collective, Context::CoRun, one.block_rows, round)};
    const bool is_matmul = one.target == profiler::ActiveTarget::Matmul;
    return {sample(is_matmul ? Component::Matmul : Component::Collective, Context::Alone, one.block_rows, round)};
  }

 private:
  [[nodiscard]] planner::Sample sample(planner::Component component, planner::Context context, std::int64_t rows,
                                       int round) const {
    const bool is_matmul = component == planner::Component::Matmul, is_pair = context == planner::Context::CoRun;
    const auto x = static_cast<double>(rows);
    double us =
        is_matmul ? compute_alpha_us + compute_us_per_row * x : communication_alpha_us + communication_us_per_row * x;
    if (is_pair) us *= is_matmul ? compute_slowdown : communication_slowdown;
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(rows * 64 + round * 4) + (is_matmul ? 2U : 0U) +
                           (is_pair ? 1U : 0U));
    us *= 1 + noise_percent / 100.0 * (static_cast<double>(random() >> 11) * 0x1p-52 - 1);
    planner::Sample result;
    result.component = component;
    result.context = context;
    result.variant = "direct";
    result.block_rows = rows;
    result.message_bytes = is_matmul ? 0 : rows * planner::traits_of(op.kind).message_bytes_per_unit(op);
    result.time = std::chrono::nanoseconds(std::llround(us * 1000));
    result.round = round;
    return result;
  }
};

} // namespace mc2::testing
