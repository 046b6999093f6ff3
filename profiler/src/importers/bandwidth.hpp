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

/// Reads a printed number; value and rounding are 0 where the text is no number of 0 or more.
[[nodiscard]] PrintedNumber printed_number(std::string_view text);

/// The error text for a bandwidth's cell that is no number of 0 or more: "algbw is 'inf'; must be a number". Empty for
/// a number, and for a cell that is empty or N/A.
[[nodiscard]] std::string cell_fault(std::string_view column, std::string_view cell);

/// The error text for a bandwidth that differs from size / time by more than the printed digits allow: "algbw is 48.77
/// GB/s where 1048576 B in 2150 us are 0.4877 GB/s". Empty where they agree, and without a bandwidth (rounding 0). Few
/// digits allow much: 0.04 GB/s stands for 0.035 to 0.045, and a bare 1 for any of 100 times less or more.
/// @param column  name of the bandwidth's column
/// @param least_bytes, most_bytes  range of the bytes that the tool may have divided by the time
[[nodiscard]] std::string bandwidth_fault(std::string_view column, std::int64_t least_bytes, std::int64_t most_bytes,
                                          PrintedNumber time_us, PrintedNumber gb_per_s);

} // namespace mc2::profiler
