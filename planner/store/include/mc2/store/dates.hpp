#pragma once

#include <cstdint>
#include <string>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

/// Moments as documents have them: ISO 8601, UTC, in whole seconds ("2027-01-31T12:00:00Z"), which sort as they follow.
namespace mc2::store {

/// Now, which callers hand to what keeps something; the store itself reads no clock.
[[nodiscard]] std::string utc_now();

/// A time above 0 as people write it: "90s", "15m", "12h", "30d" or "52w". Errors: InvalidSpec naming `field`.
[[nodiscard]] Result<std::int64_t> parse_duration_s(const std::string& text, const std::string& field);

/// So many seconds later, or earlier, at most at an end of the years 0 to 9999, outside of which moments do not sort;
/// empty where `moment` is none.
[[nodiscard]] std::string later(const std::string& moment, std::int64_t further_s);

/// When something ends that people write as a time from now ("30d"), a date ("2027-01-31": as it begins, UTC) or a
/// moment. Errors: InvalidSpec naming `field` for another form, a date that is none, a time that has passed, or one
/// after the year 9999.
[[nodiscard]] Result<std::string> parse_end(const std::string& text, const std::string& field, const std::string& now);

} // namespace mc2::store

#pragma GCC visibility pop
