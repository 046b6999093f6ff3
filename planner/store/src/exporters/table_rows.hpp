#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/store/exporter.hpp"

/// Rows of tables of plans, which somebody may have edited.
namespace mc2::store {

/// A column of a table of plans.
struct TableColumn {
  const char* name;
  std::string (*cell)(const ExportItem&);
};

struct TableRow {
  std::optional<planner::Plan> plan;                     ///< that mc2 wrote into the row; none: written by hand
  std::map<std::string, std::string, std::less<>> cells; ///< by column: those that the row has
};

/// The row's own plan where its cells say the same. Else one without predictions, of the operator, blocks and variant
/// that they say, whose reason names what was changed. Other cells are predictions, which nobody can edit.
/// @param columns  of the table
/// Errors: Malformed for a row by hand that lacks what a plan needs, for cells that make no plan and for predictions
/// that are not the plan's.
[[nodiscard]] Result<planner::Plan> plan_of_row(TableRow row, const std::vector<TableColumn>& columns);

/// The cells of a line of CSV. Errors: Malformed for a quote that is not closed.
[[nodiscard]] Result<std::vector<std::string>> csv_cells(std::string_view line);

} // namespace mc2::store
