#pragma once

#include <cstdint>
#include <optional>

#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"

namespace mc2::cli {

/// What the user says of the cuts that a plan was chosen from.
struct ExplainLimits {
  std::optional<std::int64_t> alignment, min_block_rows, max_block_count;
};

/// The cuts that a plan was probably chosen from: as said, else as its own backend cuts, else as its blocks show.
[[nodiscard]] planner::PlanOptions likely_limits(const planner::Plan& plan, const ExplainLimits& said = {});

} // namespace mc2::cli
