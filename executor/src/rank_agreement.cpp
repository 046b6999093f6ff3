#include "rank_agreement.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "mc2/planner/text.hpp"
#include "texts.hpp"

namespace mc2::executor {
namespace {

/// The fields of a machine's canonical text, without its escapes.
std::set<std::string> fields_of(std::string_view text) {
  std::set<std::string> fields;
  std::string field;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("; ")) {
      fields.insert(std::exchange(field, {}));
      ++i;
    } else {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      field += text[i];
    }
  }
  if (!field.empty()) fields.insert(field);
  return fields;
}

std::string fields_only_in(const std::set<std::string>& here, const std::set<std::string>& there) {
  std::vector<std::string> only;
  std::ranges::set_difference(here, there, std::back_inserter(only));
  return only.empty() ? "nothing more" : list_text(only);
}

} // namespace

std::string error_text(const Result<void>& own) {
  return own ? "" : std::to_string(static_cast<int>(own.error().code)) + " " + own.error().text();
}

Result<void> first_error(const Result<void>& own, std::span<const std::string> texts) {
  const auto first = std::ranges::find_if(texts, [](const std::string& text) { return !text.empty(); });
  if (first == texts.end()) return {};
  // If all ranks have the same error, a rank's number would mislead.
  if (!own && std::ranges::all_of(texts, [&](const std::string& text) { return text == texts.front(); })) return own;
  std::string_view rest = *first;
  const auto code = number_in<int>(take_part(rest, ' '));
  return Error{code ? static_cast<ErrorCode>(*code) : ErrorCode::Mismatch, "",
               rank_text(first - texts.begin()) + ": " + (code ? std::string(rest) : *first)};
}

Result<void> check_same_call(std::span<const std::string> texts) {
  const auto other = std::ranges::find_if(texts, [&](const std::string& text) { return text != texts.front(); });
  if (other == texts.end()) return {};
  return Error{ErrorCode::Mismatch, "ranks",
               rank_text(other - texts.begin()) + " calls " + *other + "; rank 0 calls " + texts.front() +
                   "; every rank must call the same"};
}

Result<void> check_same_machine(std::span<const std::string> texts, std::span<const std::string> names) {
  const auto other = std::ranges::find_if(texts, [&](const std::string& text) { return text != texts.front(); });
  if (other == texts.end()) return {};
  const auto first_fields = fields_of(texts.front()), other_fields = fields_of(*other);
  return Error{ErrorCode::Unsupported, "machine",
               names[static_cast<std::size_t>(other - texts.begin())] + " has " +
                   fields_only_in(other_fields, first_fields) + "; " + names.front() + " has " +
                   fields_only_in(first_fields, other_fields) +
                   "; a plan is of one machine, so every rank needs the same processor, cores, libraries and settings"};
}

} // namespace mc2::executor
