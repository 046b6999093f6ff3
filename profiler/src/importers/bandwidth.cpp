#include "bandwidth.hpp"

#include <cmath>

#include "fields.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::profiler {
namespace {

/// Tolerance besides the printed digits: the tool may have rounded its time before it divided.
constexpr double kBandwidthSlack = 0.03;
constexpr double kBytesPerUsOfGbPerS = 1e3;
constexpr double kRoughFactor = 100;
constexpr double kRoundingsOfTwoDigits = 20; // at least 10 units of the last digit, each of 2 roundings

} // namespace

PrintedNumber printed_number(std::string_view text) {
  const auto value = number_in<double>(text);
  if (!value || !std::isfinite(*value) || *value < 0) return {};
  const std::size_t mark = text.find_first_of("eE"), point = text.substr(0, mark).find('.');
  std::string_view power = mark == std::string_view::npos ? std::string_view("0") : text.substr(mark + 1);
  if (power.starts_with('+')) power.remove_prefix(1);
  const std::size_t end = mark == std::string_view::npos ? text.size() : mark;
  const double decimals = point == std::string_view::npos ? 0 : static_cast<double>(end - point - 1);
  return {*value, 0.5 * std::pow(10, number_in<int>(power).value_or(0) - decimals)};
}

std::string cell_fault(std::string_view column, std::string_view cell) {
  if (cell.empty() || cell == "N/A") return {};
  const auto value = number_in<double>(cell);
  if (value && std::isfinite(*value) && *value >= 0) return {};
  return std::string(column) + " is '" + shown(cell) + "'; must be a number of GB/s";
}

std::string bandwidth_fault(std::string_view column, std::int64_t least_bytes, std::int64_t most_bytes,
                            PrintedNumber time_us, PrintedNumber gb_per_s) {
  if (time_us.value <= time_us.rounding || gb_per_s.rounding <= 0) return {};
  const auto bandwidth = [](std::int64_t bytes, double us) {
    return static_cast<double>(bytes) / kBytesPerUsOfGbPerS / us;
  };
  // One digit without decimals is nobody's measurement, but a note of the order of magnitude.
  const bool is_rough = gb_per_s.rounding >= 0.5 && gb_per_s.value < kRoundingsOfTwoDigits * gb_per_s.rounding;
  const double slack = is_rough ? kRoughFactor : 1 + kBandwidthSlack;
  const double least = bandwidth(least_bytes, time_us.value + time_us.rounding),
               most = bandwidth(most_bytes, time_us.value - time_us.rounding);
  if (least <= (gb_per_s.value + gb_per_s.rounding) * slack && most >= (gb_per_s.value - gb_per_s.rounding) / slack)
    return {};
  return std::string(column) + " is " + number_text(gb_per_s.value) + " GB/s where " + std::to_string(least_bytes) +
         " B in " + number_text(time_us.value) + " us are " + number_text(bandwidth(least_bytes, time_us.value)) +
         " GB/s";
}

} // namespace mc2::profiler
