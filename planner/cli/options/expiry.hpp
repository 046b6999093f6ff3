#pragma once

#include <chrono>
#include <string>

#include "context.hpp"

namespace mc2::cli {

/// ISO 8601 UTC, in whole seconds.
[[nodiscard]] std::string utc_text(std::chrono::sys_seconds time);

/// When something ends that people write as a time from now ("90s", "15m", "12h", "30d", "52w"), a date ("2027-01-31":
/// as it begins, UTC) or a moment ("2027-01-31T12:00:00Z"). Errors: InvalidSpec for another form, a date that is none,
/// a time that has passed, or one after the year 9999.
[[nodiscard]] Result<std::chrono::sys_seconds> parse_expiry(const std::string& text, std::chrono::sys_seconds now);

} // namespace mc2::cli
