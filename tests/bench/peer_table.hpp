#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "overlap_chart.hpp"

namespace mc2::cli {

/// Results of `mc2-bench peers` that are kept (data/gpu/peers_x4.csv): what a chart needs of them.
/// Errors: as read_csv; Malformed or UnknownName with "file:line:column" as the field; InvalidSpec without a row.
[[nodiscard]] Result<std::vector<OverlapRow>> read_peer_table(std::string_view text, const std::string& file);

/// The machine that the head of such a file names, without what stands in brackets; empty without one.
[[nodiscard]] std::string machine_of_table(std::string_view text);

} // namespace mc2::cli
