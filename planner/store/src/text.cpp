#include "mc2/store/text.hpp"

#include <charconv>
#include <system_error>

#include "mc2/planner/text.hpp"

namespace mc2::store {
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

std::string_view without_byte_order_mark(std::string_view text) noexcept {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::string complaint_about(const std::string& text, std::int64_t low, std::int64_t high) {
  return complaint_of(text, low, high, "whole number");
}

std::string complaint_about(const std::string& text, double low, double high) {
  return complaint_of(text, low, high, "number");
}

} // namespace mc2::store
