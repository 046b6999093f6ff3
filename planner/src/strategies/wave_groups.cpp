#include "strategies/wave_groups.hpp"

#include <algorithm>
#include <cmath>

#include "mc2/planner/text.hpp"
#include "strategies/family.hpp"

namespace mc2::planner::strategies {
namespace {

constexpr std::int64_t kMostGroups = 10; ///< FlashOverlap's smallest group is a tenth of the waves, rounded up

/// FlashOverlap's prediction of a variant's times.
class Predictor {
 public:
  Predictor(const Problem& problem, const VariantCost& cost)
      : problem_(problem),
        cost_(cost),
        compute_us_per_row_(problem.compute_us(cost, problem.rows) / static_cast<double>(problem.rows)) {}

  [[nodiscard]] double compute_us(std::int64_t rows) const noexcept {
    return compute_us_per_row_ * static_cast<double>(rows);
  }

  /// bytes / interpolated bandwidth.
  [[nodiscard]] double communication_us(std::int64_t rows) const {
    const double bytes = static_cast<double>(rows) * problem_.message_bytes_per_unit;
    const double below = std::exp2(std::floor(std::log2(bytes)));
    const double share = bytes / below - 1;
    return bytes / ((1 - share) * bytes_per_us(below) + share * bytes_per_us(2 * below));
  }

 private:
  [[nodiscard]] double bytes_per_us(double bytes) const noexcept {
    return bytes / cost_.communication.curve.time_us(bytes);
  }

  const Problem& problem_;
  const VariantCost& cost_;
  double compute_us_per_row_;
};

struct Grouping {
  Cut cut;
  const VariantCost* cost = nullptr;
  double predicted_us = 0;
};

/// Rows of each of the smallest groups; the last group takes the rest.
std::vector<std::int64_t> smallest_groups(const Problem& problem) {
  const std::int64_t step = family_step(problem.rows, problem.options);
  const std::int64_t group_rows = coarsened_step(problem.rows, step, kMostGroups);
  std::vector<std::int64_t> groups(static_cast<std::size_t>(ceil_div(problem.rows, group_rows)), group_rows);
  groups.back() = problem.rows - group_rows * static_cast<std::int64_t>(groups.size() - 1);
  return groups;
}

/// The composition whose bit i says that a group ends behind smallest group i.
Cut composed(const std::vector<std::int64_t>& smallest, unsigned composition) {
  Cut cut{{0}};
  for (std::size_t i = 0; i < smallest.size(); ++i) {
    cut.block_rows.back() += smallest[i];
    if (i + 1 < smallest.size() && (composition >> i & 1U) != 0) cut.block_rows.push_back(0);
  }
  return cut;
}

bool is_legal(const Problem& problem, const Cut& cut) {
  return cut.block_rows.size() == 1 ||
         (static_cast<std::int64_t>(cut.block_rows.size()) <= problem.options.max_block_count &&
          *std::min_element(cut.block_rows.begin(), cut.block_rows.end()) >= problem.options.min_block_rows);
}

double latency_us(const Predictor& predictor, const Cut& cut) {
  double computed_us = 0, sent_us = 0;
  for (const auto rows : cut.block_rows) {
    computed_us += predictor.compute_us(rows);
    sent_us = std::max(computed_us, sent_us) + predictor.communication_us(rows);
  }
  return sent_us;
}

Grouping best_grouping(const Problem& problem) {
  const auto smallest = smallest_groups(problem);
  Grouping best;
  for (const auto& cost : problem.model.variants) {
    if (best.cost != nullptr && problem.is_stopped()) break;
    const Predictor predictor(problem, cost);
    for (unsigned composition = 0; composition < 1U << (smallest.size() - 1); ++composition) {
      Cut cut = composed(smallest, composition);
      if (!is_legal(problem, cut)) continue;
      const double us = latency_us(predictor, cut);
      if (best.cost == nullptr || us < best.predicted_us) best = {std::move(cut), &cost, us};
    }
  }
  return best;
}

} // namespace

Result<Plan> plan_by_wave_groups(const Problem& problem) {
  if (problem.traits.first_lane != Lane::Compute)
    return Error{ErrorCode::Infeasible, "strategy wave_groups",
                 "covers kinds that compute first, not " + std::string(problem.traits.name) + "; use strategy search"};
  const Grouping best = best_grouping(problem);
  Plan plan = predict(problem, *best.cost, best.cut, "wave_groups");
  plan.reason =
      "the grouping with the shortest latency by FlashOverlap's predictor, which says " + time_text(best.predicted_us);
  return plan;
}

} // namespace mc2::planner::strategies
