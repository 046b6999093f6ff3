#pragma once

#include "mc2/server/listener.hpp"

namespace mc2::cli {

/// JSON lines on standard error, a tenth of a second late: answers wait neither for the terminal nor for one another.
/// Lines that come faster than they are taken are dropped, and counted in a line of their own. Written to the end when
/// the last copy goes.
[[nodiscard]] server::AccessLog make_access_log();

/// One record without its line end. @param time  ISO 8601 UTC
[[nodiscard]] std::string to_json_line(const server::AccessRecord& record, std::string_view time);

} // namespace mc2::cli
