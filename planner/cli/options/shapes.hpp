#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "context.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::cli {

/// Reads a list of shapes: CSV with a heading line. Columns m, n and k are required; op, dtype and ranks default to
/// those of `defaults`. Empty lines and lines that begin with '#' are skipped.
/// Errors: Malformed, InvalidSpec or UnknownName with "file:line:column" as the field; at most 10000 shapes.
[[nodiscard]] Result<std::vector<planner::OpSpec>> parse_shapes(std::string_view text, const std::string& file,
                                                                const OpOptions& defaults);

} // namespace mc2::cli
