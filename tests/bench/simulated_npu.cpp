#include "simulated_npu.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "mc2/profiler/statistics.hpp"
#include "mc2/profiler/sweep.hpp"

namespace mc2::cli {
namespace {

/// Hidden costs are stated for a block with this share of the rows, the usual block.
constexpr double kUsualShare = 1.0 / 8;
constexpr int kSampleCount = 5;
constexpr std::array<std::int64_t, 6> kNpuRows{1024, 2048, 3072, 4096, 8192, 16384};
constexpr double kNpuBalance = 3;

} // namespace

SimulatedNpu::SimulatedNpu(std::uint64_t seed)
    : draw_(seed),
      op_{planner::OpKind::MatmulAllReduce, kNpuRows[draw_.index(kNpuRows.size())], 8192, 3072, planner::DType::F16, 8},
      lanes_(draw_, static_cast<MadeUpLanes::Truth>(seed % 3), op_.m, kNpuBalance) {
  options_.max_block_count = 32;
  options_.require_significant_gain = false;
  noise_ = draw_.uniform(0.01, 0.05);
  compute_ = hidden();
  communication_ = hidden();
  handover_us_ = draw_.uniform(0, 0.01) * serial_us();
  best_us_ = std::numeric_limits<double>::infinity();
  for (const auto& cut : planner::enumerate_cuts(op_, options_).value()) best_us_ = std::min(best_us_, fused_us(cut));
}

SimulatedNpu::Hidden SimulatedNpu::hidden() {
  constexpr std::array<double, 3> kPowers{0.5, 1, 2};
  Hidden result;
  result.expansion = draw_.uniform(0, 0.15);
  result.expansion_power = kPowers[draw_.index(kPowers.size())];
  result.contention = draw_.uniform(0, 0.4);
  result.contention_power = draw_.uniform(-0.5, 0.5);
  result.fixed_us = draw_.uniform(0, 0.005) * (lanes_.compute_us() + lanes_.communication_us());
  return result;
}

double SimulatedNpu::block_us(bool is_compute, std::int64_t rows) const {
  const Hidden& lane = is_compute ? compute_ : communication_;
  const double usual = kUsualShare * static_cast<double>(op_.m) / static_cast<double>(rows);
  // Whatever the power, a block of an eighth of the usual length expands by 2 * lane.expansion.
  const double expansion = 2 * lane.expansion * std::pow(usual / 8, lane.expansion_power);
  return lanes_.time_us(is_compute, rows) * (1 + expansion) + lane.fixed_us;
}

double SimulatedNpu::slowdown(bool is_compute, std::int64_t rows) const {
  const Hidden& lane = is_compute ? compute_ : communication_;
  const double usual = kUsualShare * static_cast<double>(op_.m) / static_cast<double>(rows);
  return 1 + lane.contention * std::pow(usual, lane.contention_power);
}

planner::LaneTimes SimulatedNpu::run(const planner::Cut& cut) const {
  if (cut.block_rows.size() == 1) return {serial_us(), lanes_.compute_us(), lanes_.communication_us()};
  const std::size_t count = cut.block_rows.size();
  constexpr double kNever = std::numeric_limits<double>::infinity(), kDone = 1e-9;
  std::vector<double> left_us[2], handed_over_us(count, kNever);
  for (const auto rows : cut.block_rows)
    for (const bool is_compute : {true, false}) left_us[is_compute ? 0 : 1].push_back(block_us(is_compute, rows));
  double now_us = 0, compute_us = 0, communication_us = 0;
  for (std::size_t first = 0, second = 0; second < count;) {
    const bool computes = first < count, communicates = handed_over_us[second] <= now_us + kDone;
    const double compute_rate = communicates && computes ? 1 / slowdown(true, cut.block_rows[first]) : 1;
    const double communication_rate = communicates && computes ? 1 / slowdown(false, cut.block_rows[second]) : 1;
    double step_us = kNever;
    if (computes) step_us = std::min(step_us, left_us[0][first] / compute_rate);
    if (communicates) step_us = std::min(step_us, left_us[1][second] / communication_rate);
    if (!communicates && handed_over_us[second] < kNever) step_us = std::min(step_us, handed_over_us[second] - now_us);
    now_us += step_us;
    compute_us += computes ? step_us : 0;
    communication_us += communicates ? step_us : 0;
    if (computes && (left_us[0][first] -= step_us * compute_rate) <= kDone)
      handed_over_us[first++] = now_us + handover_us_;
    if (communicates && (left_us[1][second] -= step_us * communication_rate) <= kDone) ++second;
  }
  return {now_us, compute_us, communication_us};
}

double SimulatedNpu::median_us(double us) {
  std::vector<double> runs;
  for (int run = 0; run < kRunCount; ++run) runs.push_back(us * std::exp(noise_ * draw_.normal()));
  return profiler::quantile(runs, 0.5);
}

planner::Profile SimulatedNpu::samples() {
  planner::Profile profile{op_, {{{"backend", "imported"}, {"device", "simulated"}}}, {}};
  for (int round = 0; round < kSampleCount; ++round)
    for (const auto rows : profiler::sweep_block_rows(op_.m, options_.alignment))
      for (const auto component : {planner::Component::Matmul, planner::Component::Collective}) {
        planner::Sample sample;
        sample.component = component;
        sample.variant = "imported";
        sample.block_rows = rows;
        sample.round = round;
        const bool is_compute = component == planner::Component::Matmul;
        if (!is_compute) sample.message_bytes = rows * planner::traits_of(op_.kind).message_bytes_per_unit(op_);
        const double us = lanes_.time_us(is_compute, rows) * std::exp(noise_ * draw_.normal());
        sample.time = std::chrono::nanoseconds(std::llround(us * 1000));
        profile.samples.push_back(std::move(sample));
      }
  return profile;
}

planner::MeasuredCut SimulatedNpu::measure(const planner::Cut& cut, bool times_blocks) {
  const planner::LaneTimes us = run(cut);
  planner::MeasuredCut measured{{}, {"imported", {}}, cut};
  measured.fused_us = median_us(us.makespan_us);
  measured.serial_us = median_us(serial_us());
  // The standard error of a median of many normal runs is 1.25 times that of their mean.
  measured.relative_error = 1.25 * noise_ / std::sqrt(kRunCount);
  if (times_blocks && cut.block_rows.size() > 1) {
    measured.compute_blocks_us = median_us(us.compute_us);
    measured.communication_blocks_us = median_us(us.communication_us);
  }
  return measured;
}

} // namespace mc2::cli
