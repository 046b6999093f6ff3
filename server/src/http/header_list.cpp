#include "http/header_list.hpp"

#include <algorithm>
#include <charconv>

namespace mc2::server {

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

bool is_tag_list(std::string_view header) noexcept {
  if (header == "*") return true;
  while (!(header = trimmed(header)).empty()) {
    if (header.starts_with("W/\"")) header.remove_prefix(2);
    if (header.front() == '"') { // the tag may have commas
      const std::size_t end = header.find('"', 1);
      if (end == std::string_view::npos) return false;
      header.remove_prefix(end + 1);
    }
    if (!take_part(header, ',').empty()) return false;
  }
  return true;
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
