#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mc2/planner/planner.hpp"

namespace mc2::planner::strategies {

/// One question with everything that every strategy needs, checked.
struct Problem {
  const OpSpec& op;
  const CostModel& model;
  const PlanOptions& options;
  const OpTraits& traits;
  std::int64_t rows;          ///< length of the cut axis
  double message_bytes_per_row;

  [[nodiscard]] double compute_us(const VariantCost& cost, std::int64_t block_rows) const noexcept {
    return cost.compute.curve.time_us(static_cast<double>(block_rows));
  }
  [[nodiscard]] double communication_us(const VariantCost& cost, std::int64_t block_rows) const noexcept {
    return cost.communication.curve.time_us(static_cast<double>(block_rows) * message_bytes_per_row);
  }
  /// Time of a block on the kind's first or second lane, with the lane's fixed cost when the plan is cut.
  [[nodiscard]] double lane_us(const VariantCost& cost, bool is_first_lane, std::int64_t block_rows,
                               bool is_cut) const noexcept;
  /// The slow-down factors of the kind's first and second lane.
  [[nodiscard]] Slowdown slowdown(const VariantCost& cost) const noexcept;
};

/// The variant with the shortest uncut matmul + collective: what a plan has to beat.
[[nodiscard]] const VariantCost& best_serial_variant(const Problem& problem) noexcept;

/// When every block of a cut would be on each lane.
[[nodiscard]] Timeline simulate_cut(const Problem& problem, const VariantCost& cost, const Cut& cut);

/// A plan for one cut with times, interval, provenance and timeline filled in; no runners-up, no reason.
[[nodiscard]] Plan predict(const Problem& problem, const VariantCost& cost, const Cut& cut, std::string strategy);

} // namespace mc2::planner::strategies
