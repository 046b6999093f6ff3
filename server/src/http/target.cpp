#include "http/target.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "http/header_list.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::server {
namespace {

constexpr std::size_t kShownParameter = 64; ///< bytes of a value that messages show

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Errors: Malformed, if a '%' is followed by no two hexadecimal digits.
Result<std::string> decoded(std::string_view text, bool is_query) {
  auto [result, is_malformed] = undo_percents(text, is_query);
  if (is_malformed)
    return Error{ErrorCode::Malformed, "target", "has a '%' that no two hexadecimal digits (not 00) follow"};
  return std::move(result);
}

/// Whether the text is a whole number, which may be too large for any type.
bool is_whole_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

Error bad_value(const std::string& name, const std::string& value, const std::string& legal) {
  return {ErrorCode::InvalidSpec, name, "is \"" + value.substr(0, kShownParameter) + "\"; must be " + legal};
}

} // namespace

UndonePercents undo_percents(std::string_view text, bool is_query) {
  UndonePercents result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_value(text[i + 2]) : -1;
    if (low >= 0 && high + low > 0) {
      result.text += static_cast<char>(high * 16 + low);
      i += 2;
      continue;
    }
    result.is_malformed = result.is_malformed || text[i] == '%';
    result.text += is_query && text[i] == '+' ? ' ' : text[i];
  }
  return result;
}

Result<Query> Query::parse(std::string_view text) {
  Query query;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    MC2_ASSIGN(const auto name, decoded(pair.substr(0, equals), true));
    MC2_ASSIGN(const auto value, decoded(pair.substr(std::min(equals + 1, pair.size())), true));
    if (!query.values_.emplace(name, Value{value}).second)
      return Error{ErrorCode::InvalidSpec, name.substr(0, 64), "is given twice; give it once"};
  }
  return query;
}

std::optional<std::string> Query::text(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  found->second.is_known = true;
  return found->second.text;
}

Result<std::optional<std::int64_t>> Query::integer(const std::string& name, std::int64_t least,
                                                   std::int64_t most) const {
  const auto value = text(name);
  if (!value) return std::optional<std::int64_t>();
  if (!is_whole_number(*value)) return bad_value(name, *value, "a whole number");
  const auto number = number_in<std::int64_t>(*value);
  if (number && *number >= least && *number <= most) return number;
  return Error{
      ErrorCode::InvalidSpec, name,
      "is " + value->substr(0, kShownParameter) + "; legal: " + std::to_string(least) + " to " + std::to_string(most)};
}

Result<std::optional<double>> Query::real(const std::string& name) const {
  const auto value = text(name);
  if (!value) return std::optional<double>();
  const auto number = number_in<double>(*value);
  if (!number || !std::isfinite(*number)) return bad_value(name, *value, "a number");
  return number;
}

Result<bool> Query::flag(const std::string& name) const {
  const auto value = text(name);
  if (!value || *value == "false") return false;
  if (*value == "true") return true;
  return bad_value(name, *value, "true or false");
}

Result<void> Query::require_all_known() const {
  for (const auto& [name, value] : values_)
    if (!value.is_known)
      return Error{ErrorCode::InvalidSpec, name.substr(0, 64), "is no parameter of this resource; leave it out"};
  return {};
}

Result<std::string> decoded_path(std::string_view target) { return decoded(target.substr(0, target.find('?')), false); }

Result<Target> parse_target(std::string_view target) {
  const std::size_t end = std::min(target.find('?'), target.size());
  MC2_ASSIGN(auto path, decoded_path(target));
  MC2_ASSIGN(auto query, Query::parse(target.substr(std::min(end + 1, target.size()))));
  return Target{std::move(path), std::move(query)};
}

} // namespace mc2::server
