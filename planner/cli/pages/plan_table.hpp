#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "context.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"
#include "options/layer_shapes.hpp"

namespace mc2::cli {

enum class TableFormat : std::uint8_t {
  None = 0, ///< no text: sweep_page() shows the cells
  Csv = 1,
  Json = 2,
};

/// One cell of a grid and what became of it. Views: everything must outlive the row.
struct PlanRow {
  const LayerShape& layer;
  planner::OpKind kind;
  std::int64_t m;
  int ranks;
  const Result<planner::OpSpec>& op; ///< an error where the layer cannot be divided so
  const Result<planner::Plan>& plan; ///< an error where there is none
  std::string_view source;           ///< of the model, empty without one
};

/// What the rows of a table add up to.
struct PlanCounts {
  std::int64_t cut = 0, uncut = 0, refused = 0;
  [[nodiscard]] std::int64_t total() const noexcept { return cut + uncut + refused; }
  void add(const PlanCounts& other) noexcept;
};

/// Appends one row, unless the format is None. As CSV (RFC 4180) a cell is empty where the JSON row has no such key.
void append_row(TableFormat format, const PlanRow& row, std::string& text);

/// The table of all rows, not of format None: CSV with a heading line, or one JSON document (schemas/sweep.schema.json)
/// with one row per line. Rows and table come in pieces, because a large one would not fit into memory twice.
/// @param asked  of every operator; its own does not matter
/// @param rows  at least one row, as append_row wrote them
[[nodiscard]] std::vector<std::string> make_table(TableFormat format, const store::PlanRequest& asked,
                                                  std::vector<std::string> rows, const PlanCounts& counts);

} // namespace mc2::cli
