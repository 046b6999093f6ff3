#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/store/exporter.hpp"

/// What the exporters share.
namespace mc2::store {

/// Equal blocks in a row.
struct BlockGroup {
  std::int64_t rows = 0;
  std::int64_t count = 0;
};
[[nodiscard]] std::vector<BlockGroup> block_groups(const planner::Cut& cut);

/// "matmul_all_reduce m=... : 512 + 4 x 896", the prediction with its interval, and where it comes from; one line
/// each, short enough for a reader with lines of 256 characters.
[[nodiscard]] std::vector<std::string> provenance_lines(const planner::Plan& plan);

/// The operator with its range of m, what the ranges cost, and the machine.
[[nodiscard]] std::vector<std::string> provenance_lines(const planner::PlanRanges& ranges);

/// A number with its shortest digits that read back to the same bits.
[[nodiscard]] std::string number_cell(double value);

/// The canonical documents behind each occurrence of `marker` up to the end of the line.
/// Errors: Malformed when there is none, or one that is no plan.
[[nodiscard]] Result<std::vector<ExportItem>> read_documents(std::string_view text, std::string_view marker);

} // namespace mc2::store
