#pragma once

#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"

namespace mc2::cli {

/// Reads "512,896,896", "512,4x896" and, as pages print cuts, "512 + 4 x 896"; at most 1024 blocks.
/// Errors: InvalidSpec naming the part that cannot be read.
[[nodiscard]] Result<planner::Cut> parse_blocks(std::string_view text);

} // namespace mc2::cli
