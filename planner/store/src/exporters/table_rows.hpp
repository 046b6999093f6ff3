#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/store/exporter.hpp"

/// Reads rows of tables of plans, which people may have edited.
namespace mc2::store {

/// A column of a table of plans.
struct TableColumn {
  const char* name;
  std::string (*cell)(const ExportItem&);
};

struct TableRow {
  std::optional<planner::Plan> plan;                     ///< the plan that mc2 wrote into the row; none: a row by hand
  std::map<std::string, std::string, std::less<>> cells; ///< the row's cells by column name
};

/// The row's own plan if the cells agree with it. Else a plan without predictions, with the operator, blocks and
/// variant of the cells, whose reason names the changes. The other cells are predictions, which must not be edited.
/// @param columns  all columns of the table
/// Errors: Malformed for a row by hand that lacks a cell that a plan needs, for cells that do not give a plan, and for
/// predictions that differ from those of the plan.
[[nodiscard]] Result<planner::Plan> plan_of_row(TableRow row, const std::vector<TableColumn>& columns);

} // namespace mc2::store
