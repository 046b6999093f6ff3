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

/// A cell of a grid and its outcome. Holds references, whose objects must outlive the row.
struct PlanRow {
  const LayerShape& layer;
  planner::OpKind kind;
  std::int64_t m;
  int ranks;
  const Result<planner::OpSpec>& op; ///< an error: the layer cannot be divided this way
  const Result<planner::Plan>& plan; ///< an error: there is no plan
  std::string_view source;           ///< of the model; empty without a model
};

/// The totals of a table's rows.
struct PlanCounts {
  std::int64_t cut = 0, uncut = 0, refused = 0;
  [[nodiscard]] std::int64_t total() const noexcept { return cut + uncut + refused; }
  void add(const PlanCounts& other) noexcept;
};

/// Appends one row, unless the format is None. A cell of CSV (RFC 4180) is empty where the JSON row would not have the
/// key.
void append_row(TableFormat format, const PlanRow& row, std::string& text);

/// The table of all rows, as CSV with a heading line or as one JSON document (schemas/sweep.schema.json) with one row
/// per line. The format must not be None. Rows and table come in pieces, because a large table would not fit into
/// memory twice.
/// @param asked  the options for every operator; its own operator is not used
/// @param rows  at least one row, as append_row wrote them
[[nodiscard]] std::vector<std::string> make_table(TableFormat format, const store::PlanRequest& asked,
                                                  std::vector<std::string> rows, const PlanCounts& counts);

} // namespace mc2::cli
