#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace mc2::cli {

inline constexpr std::int64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();

/// Checks that decimal text is a whole number within low..high; the error says what was given and what is legal.
/// CLI11's own conversion takes "" for 0, cuts what is too large and does not say what would be right.
[[nodiscard]] CLI::Validator whole_number(std::int64_t low, std::int64_t high);

/// The same for numbers with a fraction. NaN and infinities are refused.
[[nodiscard]] CLI::Validator real_number(double low, double high);

} // namespace mc2::cli
