#include "rank_agreement.hpp"

#include <algorithm>

#include "mc2/planner/text.hpp"
#include "texts.hpp"

namespace mc2::executor {

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

} // namespace mc2::executor
