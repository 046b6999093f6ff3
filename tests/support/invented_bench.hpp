#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mc2/planner/plan.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/profiler/bench.hpp"

namespace mc2::test {

/// Costs of a variant's blocks on a machine that does not exist, in us.
struct InventedCosts {
  double compute_us = 20, compute_us_per_row = 1;
  double communication_us = 15, communication_us_per_row = 0.75;
  double hand_over_us = 0;    ///< between the blocks of a lane; InventedBench ignores it
  std::int64_t step_rows = 1; ///< the compute lane pays for whole steps of this many rows

  [[nodiscard]] double block_us(bool is_compute, std::int64_t rows) const {
    const std::int64_t begun_rows = (rows + step_rows - 1) / step_rows * step_rows;
    return is_compute ? compute_us + compute_us_per_row * static_cast<double>(begun_rows)
                      : communication_us + communication_us_per_row * static_cast<double>(rows);
  }
  [[nodiscard]] double lane_us(bool is_compute, const planner::Cut& cut) const {
    double sum = 0;
    for (const auto rows : cut.block_rows) sum += block_us(is_compute, rows);
    return sum;
  }
  /// Makespan of a cut whose lanes do not disturb each other. A block enters the second lane when it has left the first
  /// and the block before it has left the second.
  [[nodiscard]] double fused_us(bool compute_first, const planner::Cut& cut) const {
    double first_end = 0, second_end = 0;
    for (const auto rows : cut.block_rows) {
      first_end += block_us(compute_first, rows);
      second_end = std::max(first_end, second_end) + block_us(!compute_first, rows);
    }
    return second_end;
  }
};

inline planner::OpSpec invented_op() {
  return {.kind = planner::OpKind::MatmulAllReduce,
          .m = 1024,
          .n = 64,
          .k = 64,
          .dtype = planner::DType::F32,
          .world_size = 2};
}

/// A bench of invented times, the same on every machine. A noise of up to 0.4 % repeats every 5 runs. Its clock
/// advances by the times that it reports. tests/doors/tuning_doors.py has the same numbers for other languages.
class InventedBench : public profiler::Bench {
 public:
  InventedBench(planner::OpSpec op, std::vector<std::pair<planner::Variant, InventedCosts>> costs,
                bool variants_share_matmul = false, const std::string& backend = "invented")
      : Bench({op, {{{"backend", backend}}}, names_of(costs), variants_share_matmul}), costs_(std::move(costs)) {}

  [[nodiscard]] Result<std::size_t> prepare(const planner::Plan& plan) override {
    for (std::size_t i = 0; i < plans_.size(); ++i)
      if (plans_[i].variant == plan.variant && plans_[i].cut == plan.cut && plans_[i].schedule == plan.schedule)
        return i;
    plans_.push_back(plan);
    return plans_.size() - 1;
  }
  [[nodiscard]] Result<void> verify(const planner::Plan& plan) override {
    verified_.push_back(plan.cut);
    return {};
  }
  [[nodiscard]] double time_us(std::size_t prepared, profiler::RunPart part) override {
    using profiler::RunPart;
    const planner::Plan& plan = plans_[prepared];
    const InventedCosts& costs = costs_of(plan.variant);
    const double compute_us = costs.lane_us(true, plan.cut), communication_us = costs.lane_us(false, plan.cut);
    const bool compute_first = planner::traits_of(op().kind).first_lane == planner::Lane::Compute;
    if (part == RunPart::Fused) return timed(costs.fused_us(compute_first, plan.cut));
    if (part == RunPart::Serial) return timed(compute_us + communication_us);
    return timed(part == RunPart::Communication ? communication_us : compute_us);
  }
  [[nodiscard]] Result<profiler::Measure> prepare_case(const profiler::ProfileCase& one,
                                                       const planner::Variant& variant) override {
    return profiler::Measure([this, one, variant] { return measure(one, variant); });
  }
  [[nodiscard]] std::chrono::steady_clock::time_point now() override { return now_; }

  [[nodiscard]] int run_count() const noexcept { return run_count_; }
  [[nodiscard]] const std::vector<planner::Cut>& verified() const noexcept { return verified_; }
  [[nodiscard]] const std::vector<std::string>& released() const noexcept { return released_; }

 protected:
  void release(const planner::Variant& variant) override { released_.push_back(variant.text()); }
  /// The time of one run: `us` with the noise. Advances the clock.
  virtual double timed(double us) {
    us *= 1 + 0.001 * (run_count_ % 5);
    ++run_count_;
    now_ += std::chrono::nanoseconds(static_cast<std::int64_t>(us * planner::kNsPerUs));
    return us;
  }
  [[nodiscard]] const InventedCosts& costs_of(const planner::Variant& variant) const {
    return std::ranges::find(costs_, variant, &std::pair<planner::Variant, InventedCosts>::first)->second;
  }

 private:
  static std::vector<planner::Variant> names_of(const std::vector<std::pair<planner::Variant, InventedCosts>>& costs) {
    std::vector<planner::Variant> names;
    for (const auto& [variant, unused] : costs) names.push_back(variant);
    return names;
  }

  std::vector<planner::Sample> measure(const profiler::ProfileCase& one, const planner::Variant& variant) {
    using profiler::CaseTarget;
    const bool is_pair = one.target == CaseTarget::BothLanes;
    std::vector<planner::Sample> samples;
    for (const bool is_compute : {true, false}) {
      if (!is_pair && is_compute != (one.target == CaseTarget::Matmul)) continue;
      planner::Sample& sample = samples.emplace_back();
      sample.component = is_compute ? planner::Component::Matmul : planner::Component::Collective;
      sample.context = is_pair ? planner::Context::CoRun : planner::Context::Alone;
      sample.variant = variant.text();
      sample.block_rows = one.block_rows;
      const std::int64_t unit_bytes = planner::traits_of(op().kind).message_bytes_per_unit(op());
      sample.message_bytes = is_compute ? 0 : one.block_rows * unit_bytes;
      const double us = timed(costs_of(variant).block_us(is_compute, one.block_rows));
      sample.time = std::chrono::nanoseconds(static_cast<std::int64_t>(us * planner::kNsPerUs));
    }
    return samples;
  }

  std::vector<std::pair<planner::Variant, InventedCosts>> costs_;
  std::vector<planner::Plan> plans_;
  std::vector<planner::Cut> verified_;
  std::vector<std::string> released_;
  std::chrono::steady_clock::time_point now_{};
  int run_count_ = 0;
};

} // namespace mc2::test
