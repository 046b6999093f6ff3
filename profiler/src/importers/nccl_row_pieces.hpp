#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mc2::profiler {

// nccl-tests writes a row in three pieces: what is timed, the time out of place, the time in place. A launcher that
// tags what it reads tags each piece, and messages of NCCL may stand between them.

/// Without the tags between a row's pieces: "-1[1,0]<stdout>:  85.14" of Open MPI, "-1[0]   85.14" of Hydra.
[[nodiscard]] std::string without_inner_tags(std::string_view text);
/// What a line has before the message of NCCL that ends it: "512 128 float sum -1node-1:4978:4990 [0] NCCL INFO ...".
/// Empty where the line is nothing but a message; nothing where it has none.
[[nodiscard]] std::optional<std::string> before_message(std::string_view text);
/// Whether these are the first cells of a row: a size, a count and a type.
[[nodiscard]] bool begins_row(const std::vector<std::string_view>& cells);
/// Whether these may be the other cells of a row: numbers, or N/A.
[[nodiscard]] bool continues_row(const std::vector<std::string_view>& cells);

} // namespace mc2::profiler
