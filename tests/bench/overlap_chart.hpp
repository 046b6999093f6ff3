#pragma once

#include <optional>
#include <span>
#include <string>

#include "mc2/planner/op_spec.hpp"

namespace mc2::cli {

/// Times of one operator and of its serial. Ratios are of times measured in turn.
struct OverlapRow {
  planner::OpSpec op; ///< with 0 ranks where the title states type and ranks
  double serial_us = 0;
  double ideal_us = 0;
  double serial_over_mc2 = 0;
  std::optional<double> peer_over_mc2; ///< time of the library that mc2 is compared with / mc2's
};

/// "1024 x 512 x 256 bf16 x4"; for 0 ranks only the sizes.
[[nodiscard]] std::string shape_text(const planner::OpSpec& op);

/// An SVG document with a row per operator, grouped by kind, that shows its times as shares of its serial time.
/// @param rows  at least one; all times and ratios > 0
[[nodiscard]] std::string overlap_chart(const std::string& title, const std::string& peer_name,
                                        std::span<const OverlapRow> rows);

} // namespace mc2::cli
