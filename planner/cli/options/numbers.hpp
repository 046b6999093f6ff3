#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>

namespace mc2::cli {

inline constexpr std::int64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();

/// What is wrong with decimal text that is to be a whole number within low..high, and what is legal; empty when
/// nothing.
[[nodiscard]] std::string complaint_about(const std::string& text, std::int64_t low, std::int64_t high);

/// Checks that decimal text is a whole number within low..high; the error says what was given and what is legal.
/// CLI11's own conversion takes "" for 0, cuts what is too large and does not say what would be right.
[[nodiscard]] CLI::Validator whole_number(std::int64_t low, std::int64_t high);

/// Checks that text is a number of ranks that an operator may have. What runs or describes them may have fewer.
[[nodiscard]] CLI::Validator rank_count();

/// A first and a last whole number; `a` alone is both.
struct NumberRange {
  std::int64_t first = 0, last = 0;
};

/// Checks "a" or "a:b" with a and b within low..high, a not above b.
[[nodiscard]] CLI::Validator number_or_range(std::int64_t low, std::int64_t high);
/// Of a text that number_or_range() lets pass.
[[nodiscard]] NumberRange read_range(const std::string& text);

/// As whole_number() for numbers with a fraction. NaN and infinities are refused.
[[nodiscard]] CLI::Validator real_number(double low, double high);

} // namespace mc2::cli
