#pragma once

#include <cstdint>
#include <string>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

/// Moments as text in documents: ISO 8601, UTC, whole seconds ("2027-01-31T12:00:00Z"). The texts sort by time.
namespace mc2::store {

/// The current moment. Callers pass it to functions that keep documents; the store itself reads no clock.
[[nodiscard]] std::string utc_now();

/// Reads a duration above 0: "90s", "15m", "12h", "30d" or "52w". Errors: InvalidSpec naming `field`.
[[nodiscard]] Result<std::int64_t> parse_duration_s(const std::string& text, const std::string& field);

/// The moment `further_s` seconds after `moment`, or before if negative. Limited to 0000-01-01 to 9999-12-31, since
/// texts of other years do not sort by time. Empty if `moment` is not a moment.
[[nodiscard]] std::string later(const std::string& moment, std::int64_t further_s);

/// Reads when something ends: a duration from now ("30d"), a date ("2027-01-31", its first second in UTC) or a moment.
/// Errors: InvalidSpec naming `field` for another form, a date that does not exist, a time not in the future, or a
/// time after the start of 9999-12-31.
[[nodiscard]] Result<std::string> parse_end(const std::string& text, const std::string& field, const std::string& now);

} // namespace mc2::store

#pragma GCC visibility pop
