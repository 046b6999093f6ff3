#include "strategies/prediction.hpp"

#include <algorithm>

#include "text.hpp"

namespace mc2::planner::strategies {
namespace {

/// Both lanes' block times, each stretched by (1 + `sign` * the lane's relative interval).
struct BlockTimes {
  std::vector<double> first_us;
  std::vector<double> second_us;
};

BlockTimes block_times(const Problem& problem, const VariantCost& cost, const Cut& cut, double sign) {
  const bool is_cut = cut.block_rows.size() > 1;
  const bool compute_first = problem.traits.first_lane == Lane::Compute;
  const LaneCost& first = compute_first ? cost.compute : cost.communication;
  const LaneCost& second = compute_first ? cost.communication : cost.compute;
  const double first_scale = std::max(0.0, 1 + sign * first.curve.relative_interval);
  const double second_scale = std::max(0.0, 1 + sign * second.curve.relative_interval);
  BlockTimes times;
  for (const auto rows : cut.block_rows) {
    times.first_us.push_back(first_scale * problem.lane_us(cost, true, rows, is_cut));
    times.second_us.push_back(second_scale * problem.lane_us(cost, false, rows, is_cut));
  }
  return times;
}

std::string range_text(const CostCurve& curve) {
  return number_text(curve.valid_min_x, 6) + ".." + number_text(curve.valid_max_x, 6) + " " +
         std::string(to_string(curve.axis));
}

/// The weaker of two provenances wins; the enumeration is ordered from strong to weak.
void weaken(Estimate& estimate, Provenance provenance, const std::string& reason) {
  if (provenance <= estimate.provenance) return;
  estimate.provenance = provenance;
  estimate.reason = reason;
}

std::string analytic_basis(const CostCurve& curve) {
  if (curve.quality.reason.empty()) return " comes from published constants, not from measurements";
  return " is analytic, not measured: " + curve.quality.reason;
}

/// Both lanes may be analytic, each for its own reason.
void weaken_to_analytic(Estimate& estimate, const std::string& reason) {
  const bool is_known = estimate.reason.find(reason) != std::string::npos;
  if (estimate.provenance == Provenance::Analytic && !is_known) estimate.reason += "; " + reason;
  weaken(estimate, Provenance::Analytic, reason);
}

void judge_lane(Estimate& estimate, const CostCurve& curve, const char* lane, double smallest_x, double largest_x) {
  for (const double x : {smallest_x, largest_x}) {
    const Provenance provenance = curve.provenance(x);
    const std::string subject = std::string(lane) + " curve";
    if (provenance == Provenance::Analytic)
      weaken_to_analytic(estimate, subject + analytic_basis(curve));
    else if (provenance == Provenance::Extrapolated)
      weaken(estimate, provenance, "a block of " + number_text(x, 6) + " " + std::string(to_string(curve.axis)) +
                                       " is outside the " + subject + "'s measured range " + range_text(curve));
    else
      weaken(estimate, provenance, "every block lies inside the measured range of both curves");
  }
}

Estimate judged_estimate(const Problem& problem, const VariantCost& cost, const Cut& cut) {
  const auto [smallest, largest] = std::minmax_element(cut.block_rows.begin(), cut.block_rows.end());
  const auto small_rows = static_cast<double>(*smallest), large_rows = static_cast<double>(*largest);
  Estimate estimate;
  estimate.provenance = Provenance::Measured;
  judge_lane(estimate, cost.compute.curve, "compute", small_rows, large_rows);
  judge_lane(estimate, cost.communication.curve, "communication", small_rows * problem.message_bytes_per_row,
             large_rows * problem.message_bytes_per_row);
  return estimate;
}

} // namespace

double Problem::lane_us(const VariantCost& cost, bool is_first_lane, std::int64_t block_rows,
                        bool is_cut) const noexcept {
  const bool is_compute = is_first_lane == (traits.first_lane == Lane::Compute);
  const double fixed_us = is_compute ? cost.compute.fixed_us : cost.communication.fixed_us;
  const double block_us = is_compute ? compute_us(cost, block_rows) : communication_us(cost, block_rows);
  return block_us + (is_cut ? fixed_us : 0.0);
}

Slowdown Problem::slowdown(const VariantCost& cost) const noexcept {
  if (traits.first_lane == Lane::Compute) return {cost.compute.slowdown, cost.communication.slowdown};
  return {cost.communication.slowdown, cost.compute.slowdown};
}

const VariantCost& best_serial_variant(const Problem& problem) noexcept {
  const auto serial_us = [&](const VariantCost& cost) {
    return problem.compute_us(cost, problem.rows) + problem.communication_us(cost, problem.rows);
  };
  return *std::min_element(
      problem.model.variants.begin(), problem.model.variants.end(),
      [&](const VariantCost& a, const VariantCost& b) { return serial_us(a) < serial_us(b); });
}

Timeline simulate_cut(const Problem& problem, const VariantCost& cost, const Cut& cut) {
  const BlockTimes expected = block_times(problem, cost, cut, 0);
  return simulate(expected.first_us, expected.second_us, problem.slowdown(cost));
}

Plan predict(const Problem& problem, const VariantCost& cost, const Cut& cut, std::string strategy) {
  const VariantCost& serial = best_serial_variant(problem);
  Plan plan;
  plan.op = problem.op;
  plan.fingerprint = problem.model.fingerprint;
  plan.strategy = std::move(strategy);
  plan.variant = cost.variant;
  plan.cut = cut;
  plan.slowdown = problem.slowdown(cost);
  plan.compute_us = problem.compute_us(serial, problem.rows);
  plan.communication_us = problem.communication_us(serial, problem.rows);
  plan.serial_us = plan.compute_us + plan.communication_us;
  plan.ideal_us = std::max(plan.compute_us, plan.communication_us);
  plan.bound = plan.communication_us > plan.compute_us ? Bound::Communication : Bound::Compute;

  const BlockTimes low = block_times(problem, cost, cut, -1), high = block_times(problem, cost, cut, +1);
  plan.timeline = simulate_cut(problem, cost, cut);
  plan.makespan = judged_estimate(problem, cost, cut);
  plan.makespan.us = plan.timeline.makespan_us;
  plan.makespan.low_us = makespan_us(low.first_us, low.second_us, plan.slowdown);
  plan.makespan.high_us = makespan_us(high.first_us, high.second_us, plan.slowdown);
  return plan;
}

} // namespace mc2::planner::strategies
