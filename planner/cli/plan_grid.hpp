#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/finder/find_ranges.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/planner/planner.hpp"
#include "options/layer_shapes.hpp"
#include "pages/plan_table.hpp"

namespace mc2::cli {

inline constexpr std::int64_t kMaxGridRows = 1'000'000;

/// A layer of one kind on one number of ranks. It has a cell for each m.
struct DividedLayer {
  const LayerShape* layer;
  planner::OpKind kind;
  int ranks;
};

/// An operator at several m.
struct OpFamily {
  planner::OpSpec op;              ///< m is ignored
  std::vector<std::int64_t> all_m; ///< ascending
};

/// Every layer x kind x ranks x m, in this order of nesting.
struct PlanGrid {
  std::vector<LayerShape> layers;
  std::vector<planner::OpKind> kinds; ///< each layer takes those of them that it can be
  std::vector<int> ranks;             ///< ascending
  std::vector<std::int64_t> all_m;    ///< ascending

  /// Errors: InvalidSpec for no rows or more than kMaxGridRows.
  [[nodiscard]] Result<std::int64_t> row_count() const;
  /// Layer x kind x ranks, in this order of nesting. Views of `layers`.
  [[nodiscard]] std::vector<DividedLayer> divided_layers() const;
  /// For each of divided_layers() its operator with the m that are legal, of which there may be none.
  [[nodiscard]] std::vector<OpFamily> families() const;
};

struct GridRun {
  store::PlanRequest asked; ///< the options for all operators of the grid
  TableFormat format = TableFormat::Csv;
  int thread_count = 1;
  bool has_progress = false; ///< a progress line on standard error
};

/// The outcome of one cell.
struct GridCell {
  enum class Status : std::uint8_t {
    Refused = 0,
    Serial = 1,
    OneBlock = 2, ///< not cut, but its lanes overlap
    Cut = 3,
  };
  /// What the benefit rests on.
  enum class Basis : std::uint8_t { Predicted = 0, Measured = 1, Extrapolated = 2 };
  Status status = Status::Refused;
  Basis basis = Basis::Predicted;
  float benefit = 0; ///< 1 - makespan / serial; measured if it was raced; 0 for serial
};

/// Cells that have no plan for the same error code.
struct Refusals {
  std::int64_t count = 0;
  std::string example;
};

/// Rows in grid order, and their totals. Everything depends only on grid, places and options, not on the threads.
struct PlannedGrid {
  std::vector<std::string> rows; ///< the text of all rows, in pieces
  std::vector<GridCell> cells;   ///< for each of divided_layers(), one for each of all_m
  std::map<ErrorCode, Refusals> refusals;
  PlanCounts counts;
};

/// Makes the places that finder::find_plan() asks about the operators of a family. They know their machines, options
/// and the like; the question says the operator alone. Threads: it and the places must be safe to share.
using FindPlaces = std::function<std::vector<finder::PlanSource>(const OpFamily&)>;

/// A place that plans with these models of a family's operators, from finder::find_over().
/// @param asked   the options; what it leaves open is as usual on the model's machine
/// @param origin  says where a model is from
[[nodiscard]] finder::PlanSource planner_with(std::string name, std::vector<finder::AnswerOverM> models,
                                              store::PlanRequest asked,
                                              std::function<std::string(const finder::FoundModel&)> origin);

/// Plans every cell of a grid on several threads, by finder::find_plan(). The row of a cell without a plan says why.
/// Errors: as PlanGrid::row_count; Cancelled on an interrupt.
[[nodiscard]] Result<PlannedGrid> plan_grid(const PlanGrid& grid, const FindPlaces& find_places, const GridRun& run);

} // namespace mc2::cli
