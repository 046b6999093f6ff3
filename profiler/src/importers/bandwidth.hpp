#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mc2::profiler {

/// A number as a log prints it.
struct PrintedNumber {
  double value = 0;
  double rounding = 0; ///< half of its last digit
};

/// Both 0 where the text is no number above 0.
[[nodiscard]] PrintedNumber printed_number(std::string_view text);

/// "algbw is 48.77 GB/s where 1048576 B in 2150 us are 0.4877 GB/s": a row's bandwidth that is not its size over its
/// time, by more than the printed digits allow. Empty where it is, or has fewer than two significant digits.
/// @param column  of the bandwidth
/// @param least_bytes, most_bytes  that the tool may have divided by the time
[[nodiscard]] std::string bandwidth_fault(std::string_view column, std::int64_t least_bytes, std::int64_t most_bytes,
                                          PrintedNumber time_us, PrintedNumber gb_per_s);

} // namespace mc2::profiler
