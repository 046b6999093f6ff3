#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/store/exporter.hpp"

/// Functions that several exporters share.
namespace mc2::store {

/// Consecutive blocks of equal length.
struct BlockGroup {
  std::int64_t rows = 0;
  std::int64_t count = 0;
};
[[nodiscard]] std::vector<BlockGroup> block_groups(const planner::Cut& cut);

/// One line each for "matmul_all_reduce m=... : 512 + 4 x 896", the prediction with its interval, where it comes from,
/// the machine, and the measurement if there is one. Lines fit readers that take at most 256 characters.
[[nodiscard]] std::vector<std::string> provenance_lines(const planner::Plan& plan);

/// One line each for the operator with its range of m, what the ranges lose, and the machine.
[[nodiscard]] std::vector<std::string> provenance_lines(const planner::PlanRanges& ranges);

/// A number with the fewest digits that read back to the same bits.
[[nodiscard]] std::string number_cell(double value);

/// The plans in a text: after each occurrence of `marker`, a canonical document follows up to the end of the line.
/// Errors: Malformed if there is none; those of decode_plan.
[[nodiscard]] Result<std::vector<ExportItem>> read_documents(std::string_view text, std::string_view marker);

} // namespace mc2::store
