#pragma once

#include "mc2/server/listener.hpp"

namespace mc2::cli {

/// Makes a log that writes JSON lines to standard error. A thread of its own writes every tenth of a second, so that
/// answers wait neither for the terminal nor for one another. Lines that come faster than they are written are dropped;
/// a line of its own says how many. The destruction of the last copy writes the rest.
[[nodiscard]] server::AccessLog make_access_log();

/// The JSON line of one record, without its line end.
/// @param time  ISO 8601 UTC
[[nodiscard]] std::string to_json_line(const server::AccessRecord& record, std::string_view time);

} // namespace mc2::cli
