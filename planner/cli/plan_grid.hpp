#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/planner/planner.hpp"
#include "model_sources.hpp"
#include "options/layer_shapes.hpp"
#include "pages/plan_table.hpp"

namespace mc2::cli {

inline constexpr std::int64_t kMaxGridRows = 1'000'000;

/// One layer, divided in one way: the cells of all its m.
struct DividedLayer {
  const LayerShape* layer;
  planner::OpKind kind;
  int ranks;
};

/// Every layer x kind x ranks x m, in this order of nesting.
struct PlanGrid {
  std::vector<LayerShape> layers;
  std::vector<planner::OpKind> kinds; ///< of these each layer takes those it can be
  std::vector<int> ranks;             ///< ascending
  std::vector<std::int64_t> all_m;    ///< ascending

  /// Errors: InvalidSpec for no rows or more than kMaxGridRows.
  [[nodiscard]] Result<std::int64_t> row_count() const;
  /// Layer x kind x ranks, in this order of nesting. Views of `layers`.
  [[nodiscard]] std::vector<DividedLayer> divided_layers() const;
  /// The operators of the grid that are legal for at least one m, with those m.
  [[nodiscard]] std::vector<OpFamily> families() const;
};

struct GridRun {
  store::PlanRequest asked; ///< of every operator of the grid
  TableFormat format = TableFormat::Csv;
  int thread_count = 1;
  bool has_progress = false; ///< a progress line on standard error
};

/// What became of one cell.
struct GridCell {
  enum class Status : std::uint8_t {
    Refused = 0,
    Serial = 1,
    OneBlock = 2, ///< not cut, and yet its lanes overlap
    Cut = 3,
  };
  Status status = Status::Refused;
  float benefit = 0; ///< 1 - makespan / serial; 0 of serial
};

/// Why cells have no plan: by code, how many, and the first one's reason.
struct Refusals {
  std::int64_t count = 0;
  std::string example;
};

/// Rows in grid order, and what they add up to. All of it depends on nothing but grid, sources and options.
struct PlannedGrid {
  std::vector<std::string> rows; ///< as text in pieces; together they are all rows
  std::vector<GridCell> cells;   ///< of divided_layers(), for each of all_m
  std::map<ErrorCode, Refusals> refusals;
  PlanCounts counts;
};

/// Plans every cell of a grid on several threads. A cell without a plan is a row that says why.
/// Errors: as PlanGrid::row_count; Cancelled on an interrupt.
[[nodiscard]] Result<PlannedGrid> plan_grid(const PlanGrid& grid, const ModelSources& sources, const GridRun& run);

} // namespace mc2::cli
