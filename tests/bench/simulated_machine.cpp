#include "simulated_machine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "mc2/planner/pipeline.hpp"

namespace mc2::cli {

using profiler::CaseTarget;

SimulatedMachine::SimulatedMachine(Truth truth, std::uint64_t seed) : random_(seed), truth_(truth) {
  constexpr std::array<std::int64_t, 6> kRows{768, 1024, 1500, 2048, 4096, 8192};
  const std::int64_t m = kRows[random_() % kRows.size()];
  op_ = {planner::OpKind::MatmulAllReduce, m, 4096, 4096, planner::DType::F16, 8};
  options_.alignment = options_.min_block_rows = m <= 1500 ? 32 : 128;
  options_.max_block_count = 32;
  compute_us_ = std::exp(uniform(std::log(200.0), std::log(5000.0)));
  communication_us_ = compute_us_ * std::exp(uniform(-std::log(4.0), std::log(4.0)));
  compute_fixed_ = std::exp(uniform(std::log(0.003), std::log(0.05)));
  communication_fixed_ = std::exp(uniform(std::log(0.003), std::log(0.08)));
  bend_ = uniform(0.1, 0.5);
  bend_rows_ = static_cast<double>(m) * uniform(0.1, 0.5);
  step_rows_ = static_cast<double>(m) / uniform(6, 20);
  slowdown_ = {uniform(1, 1.3), uniform(1, 1.5)};
  noise_ = uniform(0.01, 0.05);
  drift_ = random_() % 3 == 0 ? 0.05 : 0;
  best_us_ = std::numeric_limits<double>::infinity();
  for (const auto& cut : planner::enumerate_cuts(op_, options_).value())
    best_us_ = std::min(best_us_, makespan_us(cut));
}

double SimulatedMachine::uniform(double low, double high) {
  return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
}

double SimulatedMachine::normal() {
  return std::sqrt(-2 * std::log(uniform(1e-12, 1))) * std::cos(2 * std::numbers::pi * uniform(0, 1));
}

double SimulatedMachine::time_us(CaseTarget lane, std::int64_t rows) const {
  const auto x = static_cast<double>(rows), all = static_cast<double>(op_.m);
  const bool is_compute = lane == CaseTarget::Matmul;
  const double fixed = is_compute ? compute_fixed_ : communication_fixed_;
  double share = x / all;
  // Waves are filled step by step; the ragged part of a wave costs most of a whole one.
  if (is_compute && truth_ == Truth::Staircase)
    share = (0.3 * x + 0.7 * step_rows_ * std::ceil(x / step_rows_)) /
            (0.3 * all + 0.7 * step_rows_ * std::ceil(all / step_rows_));
  // Concave up to the bend, as published all-reduce curves are, and affine beyond it.
  if (!is_compute && truth_ == Truth::Bent) {
    const double u = std::min(x / bend_rows_, 1.0);
    share += bend_ * bend_rows_ / all * u * (2 - u);
  }
  return (is_compute ? compute_us_ : communication_us_) * (fixed + (1 - fixed) * share);
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
  return makespan_us(cut) * std::exp(noise_ * normal());
}

double SimulatedMachine::regret(const planner::Cut& cut) const { return makespan_us(cut) / best_us_ - 1; }

planner::Sample SimulatedMachine::sample(CaseTarget lane, std::int64_t rows, planner::Context context, double us,
                                         int round) {
  if (round != drift_round_) {
    drift_round_ = round;
    drift_factor_ = std::exp(drift_ * normal());
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
  const double measured_us = us * drift_factor_ * std::exp(noise_ * normal());
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
