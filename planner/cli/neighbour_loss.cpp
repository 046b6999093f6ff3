#include "neighbour_loss.hpp"

#include <algorithm>

namespace mc2::cli {
namespace {

constexpr int kProbeCount = 8;

/// The relative loss at one m. Errors: as make_plan.
Result<double> loss_at(std::int64_t m, const planner::Plan& plan, const planner::CostModel& model,
                       const planner::PlanOptions& options) {
  planner::OpSpec op = plan.op;
  op.m = m;
  MC2_ASSIGN(const auto best, planner::make_plan(op, model, options));
  const auto cut = stretched(plan.cut, planner::cut_axis_length(op));
  MC2_ASSIGN(const auto taken, planner::predict_cut(op, model, plan.variant, cut));
  return std::max(0.0, taken.makespan.us / best.makespan.us - 1);
}

/// The largest loss between the item's m and the middle to a neighbour's.
Result<double> loss_towards(std::int64_t neighbour_m, const planner::Plan& plan, const planner::CostModel& model,
                            const planner::PlanOptions& options) {
  const std::int64_t step = planner::m_step(plan.op);
  double worst = 0;
  for (int i = 1; i <= kProbeCount; ++i) {
    const double m =
        static_cast<double>(plan.op.m) + static_cast<double>(neighbour_m - plan.op.m) / 2 * i / kProbeCount;
    MC2_ASSIGN(const auto loss,
               loss_at(std::max(step, planner::align_down(static_cast<std::int64_t>(m), step)), plan, model, options));
    worst = std::max(worst, loss);
  }
  return worst;
}

} // namespace

planner::Cut stretched(const planner::Cut& cut, std::int64_t length) {
  const std::int64_t longest = *std::max_element(cut.block_rows.begin(), cut.block_rows.end());
  planner::Cut result;
  std::int64_t left = length;
  for (std::size_t i = 0; left > 0; ++i) {
    const std::int64_t rows = std::min(left, i < cut.block_rows.size() ? cut.block_rows[i] : longest);
    result.block_rows.push_back(rows);
    left -= rows;
  }
  return result;
}

Result<void> add_neighbour_losses(std::vector<store::ExportItem>& items, const planner::CostModel& model,
                                  const planner::PlanOptions& options) {
  for (std::size_t i = 0; items.size() > 1 && i < items.size(); ++i) {
    double worst = 0;
    for (const std::size_t neighbour : {i - 1, i + 1}) { // for the first item, i - 1 wraps around to out of range
      if (neighbour >= items.size()) continue;
      MC2_ASSIGN(const auto loss, loss_towards(items[neighbour].plan.op.m, items[i].plan, model, options));
      worst = std::max(worst, loss);
    }
    items[i].neighbour_loss = worst;
  }
  return {};
}

} // namespace mc2::cli
