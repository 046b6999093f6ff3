#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "context.hpp"
#include "layer_shapes.hpp"
#include "mc2/planner/planner.hpp"
#include "model_sources.hpp"
#include "plan_table.hpp"

namespace mc2::cli {

inline constexpr std::int64_t kMaxGridRows = 1'000'000;

/// Every layer x kind x ranks x m, in this order of nesting.
struct PlanGrid {
  std::vector<LayerShape> layers;
  std::vector<planner::OpKind> kinds; ///< of these each layer takes those it can be
  std::vector<int> ranks;             ///< ascending
  std::vector<std::int64_t> all_m;    ///< ascending

  /// Errors: InvalidSpec for no rows or more than kMaxGridRows.
  [[nodiscard]] Result<std::int64_t> row_count() const;
  /// The operators of the grid that are legal for at least one m, with those m.
  [[nodiscard]] std::vector<OpFamily> families() const;
};

struct GridRun {
  planner::PlanOptions options;
  planner::PlanOptions kept_options; ///< of models that the store keeps for this machine
  TableFormat format = TableFormat::Csv;
  int thread_count = 1;
  bool has_progress = false; ///< a progress line on standard error
};

/// Rows in grid order as text, and what they add up to. Both depend on nothing but grid, sources and options.
struct PlannedGrid {
  std::vector<std::string> rows; ///< in pieces; together they are all rows
  PlanCounts counts;
};

/// Plans every cell of a grid on several threads. A cell without a plan is a row that says why.
/// Errors: as PlanGrid::row_count; Cancelled on an interrupt.
[[nodiscard]] Result<PlannedGrid> plan_grid(const PlanGrid& grid, const ModelSources& sources, const GridRun& run);

} // namespace mc2::cli
