#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "overlap_chart.hpp"

namespace mc2::cli {

/// Reads the columns that a chart needs from kept results of `mc2-bench peers` (data/gpu/peers_x4.csv).
/// Errors: as read_csv; Malformed or UnknownName with "file:line:column" as the field; InvalidSpec without a row.
[[nodiscard]] Result<std::vector<OverlapRow>> read_peer_table(std::string_view text, const std::string& file);

/// The machine that the head of such a file names, without text in brackets; empty where it names none.
[[nodiscard]] std::string machine_of_table(std::string_view text);

} // namespace mc2::cli
