#include "options/numbers.hpp"

#include <charconv>
#include <string>
#include <system_error>

#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::cli {
namespace {

std::string limit_text(std::int64_t value) { return std::to_string(value); }

std::string limit_text(double value) { return number_text(value, 6); }

/// As complaint_about(), for any type of number.
template <typename Number>
std::string complaint_of(const std::string& text, Number low, Number high, const char* kind) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number =
      end != text.data() && end == text.data() + text.size() && failure != std::errc::invalid_argument;
  const std::string legal = "; legal: " + limit_text(low) + " to " + limit_text(high);
  if (!is_number) return "'" + text.substr(0, 32) + "' is no " + kind + legal;
  // A comparison with NaN is false.
  if (failure == std::errc() && value >= low && value <= high) return {};
  return "is " + text.substr(0, 32) + legal;
}

} // namespace

std::string complaint_about(const std::string& text, std::int64_t low, std::int64_t high) {
  return complaint_of(text, low, high, "whole number");
}

CLI::Validator whole_number(std::int64_t low, std::int64_t high) {
  return {[low, high](std::string& text) { return complaint_about(text, low, high); }, ""};
}

CLI::Validator rank_count() {
  return {[](std::string& text) {
            const bool is_too_few = complaint_about(text, std::numeric_limits<std::int64_t>::min(), 1).empty();
            return is_too_few ? "is " + text.substr(0, 32) + "; legal: 2 or more"
                              : complaint_about(text, 2, planner::kMaxWorldSize);
          },
          ""};
}

CLI::Validator number_or_range(std::int64_t low, std::int64_t high) {
  return {
      [low, high](std::string& text) {
        const std::size_t colon = text.find(':');
        for (const std::string& part : {text.substr(0, colon), text.substr(colon == std::string::npos ? 0 : colon + 1)})
          if (std::string complaint = complaint_about(part, low, high); !complaint.empty())
            return complaint + (colon == std::string::npos ? ", or a range first:last"
                                                           : "; a range is first:last, both within these bounds");
        const NumberRange range = read_range(text);
        return range.first <= range.last ? std::string() : "is " + text.substr(0, 32) + "; the first is above the last";
      },
      ""};
}

NumberRange read_range(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::int64_t first = std::stoll(text);
  return {first, colon == std::string::npos ? first : std::stoll(text.substr(colon + 1))};
}

CLI::Validator real_number(double low, double high) {
  return {[low, high](std::string& text) { return complaint_of(text, low, high, "number"); }, ""};
}

} // namespace mc2::cli
