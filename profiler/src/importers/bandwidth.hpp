#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mc2::profiler {

/// A number that a log prints.
struct PrintedNumber {
  double value = 0;
  double rounding = 0; ///< half a unit of the last printed digit
};

/// Reads a printed number; value and rounding are 0 where the text is no number above 0.
[[nodiscard]] PrintedNumber printed_number(std::string_view text);

/// The error text for a bandwidth that differs from size / time by more than the printed digits allow: "algbw is 48.77
/// GB/s where 1048576 B in 2150 us are 0.4877 GB/s". Empty where they agree, or the bandwidth has fewer than two
/// significant digits.
/// @param column  name of the bandwidth's column
/// @param least_bytes, most_bytes  range of the bytes that the tool may have divided by the time
[[nodiscard]] std::string bandwidth_fault(std::string_view column, std::int64_t least_bytes, std::int64_t most_bytes,
                                          PrintedNumber time_us, PrintedNumber gb_per_s);

} // namespace mc2::profiler
