#include "variant_settings.hpp"

#include <algorithm>
#include <string>

#include "mc2/planner/text.hpp"

namespace mc2::executor {

Result<int> whole_setting(const planner::Variant& variant, std::string_view key, int least, int most,
                          std::optional<int> fallback) {
  const auto found = variant.fields.find(std::string(key));
  const bool is_missing = found == variant.fields.end();
  if (is_missing && fallback) return *fallback;
  const auto value = is_missing ? std::nullopt : number_in<int>(found->second);
  if (value && *value >= least && *value <= most) return *value;
  return Error{ErrorCode::InvalidSpec, "variant",
               "\"" + variant.name + "\" needs the setting " + std::string(key) + ", a whole number from " +
                   std::to_string(least) + " to " + std::to_string(most) +
                   (is_missing ? "; it is missing" : ", not \"" + found->second + "\"")};
}

Result<void> check_settings(const planner::Variant& variant, std::span<const std::string_view> legal) {
  for (const auto& [key, value] : variant.fields) {
    if (std::ranges::find(legal, key) != legal.end()) continue;
    return Error{ErrorCode::InvalidSpec, "variant",
                 "\"" + variant.name + "\" has no setting \"" + key +
                     "\"; it has: " + (legal.empty() ? "none" : list_text(legal))};
  }
  return {};
}

} // namespace mc2::executor
