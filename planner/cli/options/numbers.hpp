#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

namespace mc2::cli {

inline constexpr std::int64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();

/// Checks that decimal text is a whole number within low..high; the error says what was given and what is legal.
/// CLI11's own conversion takes "" for 0, truncates large numbers and does not say what is legal.
[[nodiscard]] CLI::Validator whole_number(std::int64_t low, std::int64_t high);

/// Checks that text is a number of ranks that an operator may have. A backend or a cluster may have fewer ranks.
[[nodiscard]] CLI::Validator rank_count();

/// A first and a last whole number; "a" alone means a:a.
struct NumberRange {
  std::int64_t first = 0, last = 0;
};

/// Checks "a" or "a:b" with a and b within low..high, a not above b.
[[nodiscard]] CLI::Validator number_or_range(std::int64_t low, std::int64_t high);
/// Reads a text that number_or_range() has accepted.
[[nodiscard]] NumberRange read_range(const std::string& text);

/// As whole_number() for numbers with a fraction. NaN and infinities are refused.
[[nodiscard]] CLI::Validator real_number(double low, double high);

/// Adds an option in seconds, 0.001 to 3600. The present `value` is the default.
CLI::Option* add_seconds(CLI::App& app, const std::string& name, std::chrono::milliseconds& value,
                         const std::string& help);

} // namespace mc2::cli
