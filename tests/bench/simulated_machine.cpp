#include "simulated_machine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "mc2/planner/pipeline.hpp"

namespace mc2::cli {

using profiler::CaseTarget;

namespace {

constexpr std::array<std::int64_t, 6> kRows{768, 1024, 1500, 2048, 4096, 8192};
constexpr double kBalance = 4;

} // namespace

SimulatedMachine::SimulatedMachine(Truth truth, std::uint64_t seed)
    : draw_(seed),
      op_{planner::OpKind::MatmulAllReduce, kRows[draw_.index(kRows.size())], 4096, 4096, planner::DType::F16, 8},
      lanes_(draw_, truth, op_.m, kBalance) {
  options_.alignment = options_.min_block_rows = op_.m <= 1500 ? 32 : 128;
  options_.max_block_count = 32;
  slowdown_.first = draw_.uniform(1, 1.3);
  slowdown_.second = draw_.uniform(1, 1.5);
  noise_ = draw_.uniform(0.01, 0.05);
  drift_ = draw_.index(3) == 0 ? 0.05 : 0;
  best_us_ = std::numeric_limits<double>::infinity();
  for (const auto& cut : planner::enumerate_cuts(op_, options_).value())
    best_us_ = std::min(best_us_, makespan_us(cut));
}

double SimulatedMachine::time_us(CaseTarget lane, std::int64_t rows) const {
  return lanes_.time_us(lane == CaseTarget::Matmul, rows);
}

double SimulatedMachine::makespan_us(const planner::Cut& cut) const {
  std::vector<double> compute, communication;
  for (const auto rows : cut.block_rows) {
    compute.push_back(time_us(CaseTarget::Matmul, rows));
    communication.push_back(time_us(CaseTarget::Collective, rows));
  }
  return planner::makespan_us(compute, communication, slowdown_);
}

double SimulatedMachine::measure_cut_us(const planner::Cut& cut) {
  return makespan_us(cut) * std::exp(noise_ * draw_.normal());
}

double SimulatedMachine::regret(const planner::Cut& cut) const { return makespan_us(cut) / best_us_ - 1; }

planner::Sample SimulatedMachine::sample(CaseTarget lane, std::int64_t rows, planner::Context context, double us,
                                         int round) {
  if (round != drift_round_) {
    drift_round_ = round;
    drift_factor_ = std::exp(drift_ * draw_.normal());
  }
  planner::Sample result;
  result.component = lane == CaseTarget::Matmul ? planner::Component::Matmul : planner::Component::Collective;
  result.context = context;
  result.variant = "direct";
  result.block_rows = rows;
  result.block_count = static_cast<int>(std::max<std::int64_t>(op_.m / rows, 1));
  result.message_bytes = result.component == planner::Component::Collective
                             ? rows * planner::traits_of(op_.kind).message_bytes_per_unit(op_)
                             : 0;
  const double measured_us = us * drift_factor_ * std::exp(noise_ * draw_.normal());
  result.time = std::chrono::nanoseconds(std::max<std::int64_t>(std::llround(measured_us * 1000), 1));
  result.round = round;
  return result;
}

std::vector<planner::Sample> SimulatedMachine::measure(const profiler::ProfileCase& one, int round) {
  using planner::Context;
  const std::int64_t rows = one.block_rows;
  if (one.target != CaseTarget::BothLanes)
    return {sample(one.target, rows, Context::Alone, time_us(one.target, rows), round)};
  return {sample(CaseTarget::Matmul, rows, Context::CoRun, slowdown_.first * time_us(CaseTarget::Matmul, rows), round),
          sample(CaseTarget::Collective, rows, Context::CoRun, slowdown_.second * time_us(CaseTarget::Collective, rows),
                 round)};
}

} // namespace mc2::cli
