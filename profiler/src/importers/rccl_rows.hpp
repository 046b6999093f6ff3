#pragma once

#include <string>
#include <string_view>

#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::profiler {

/// Other forms of the list that rccl-tests -Z json writes. They become this list, in which each row keeps its line.

/// Whether a log is the table of -Z csv.
[[nodiscard]] bool is_rccl_table(std::string_view head);
/// Reads that table; a bad row is left out and reported. Errors: Malformed for an empty log.
[[nodiscard]] Result<std::string> rccl_list_of_table(LogReader& reader, LogSink& sink);

/// Whether a log has one object a line, as -Z json of older versions writes them.
[[nodiscard]] bool has_rccl_lines(std::string_view head);
[[nodiscard]] std::string rccl_list_of_lines(std::string_view text);

} // namespace mc2::profiler
