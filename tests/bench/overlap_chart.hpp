#pragma once

#include <optional>
#include <span>
#include <string>

#include "mc2/planner/op_spec.hpp"

namespace mc2::cli {

/// What one operator takes beside its serial. Ratios are of times that were taken in turn.
struct OverlapRow {
  planner::OpSpec op; ///< of 0 ranks where type and ranks are those of the title
  double serial_us = 0;
  double ideal_us = 0;
  double serial_over_mc2 = 0;
  std::optional<double> peer_over_mc2; ///< of the library that mc2 is compared with
};

/// "1024 x 512 x 256 bf16 x4"; the sizes alone of 0 ranks.
[[nodiscard]] std::string shape_text(const planner::OpSpec& op);

/// An SVG document: a row per operator, grouped by kind, with its times as shares of its serial's. @param rows at least
/// one, all times and ratios > 0
[[nodiscard]] std::string overlap_chart(const std::string& title, const std::string& peer_name,
                                        std::span<const OverlapRow> rows);

} // namespace mc2::cli
