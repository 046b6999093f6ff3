#include "http/header_list.hpp"

#include <algorithm>
#include <charconv>

namespace mc2::server {

std::string_view take_part(std::string_view& rest, char separator) noexcept {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  while (!part.empty() && (part.front() == ' ' || part.front() == '\t')) part.remove_prefix(1);
  while (!part.empty() && (part.back() == ' ' || part.back() == '\t')) part.remove_suffix(1);
  return part;
}

bool equals_ignoring_case(std::string_view one, std::string_view other) noexcept {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(one, other, {}, lower, lower);
}

bool names_tag(std::string_view header, std::string_view tag, Tags comparison) noexcept {
  if (header == "*") return true;
  while (!header.empty()) {
    std::string_view one = take_part(header, ',');
    if (comparison == Tags::Weak && one.starts_with("W/")) one.remove_prefix(2);
    if (one == tag) return true;
  }
  return false;
}

double weight_of(std::string_view parameters) noexcept {
  while (!parameters.empty()) {
    std::string_view value = take_part(parameters, ';');
    if (!equals_ignoring_case(take_part(value, '='), "q")) continue;
    double weight = 0;
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), weight, std::chars_format::fixed);
    return error == std::errc() && end == value.data() + value.size() && weight >= 0 && weight <= 1 ? weight : 0;
  }
  return 1;
}

} // namespace mc2::server
