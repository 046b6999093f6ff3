#pragma once

#include <span>
#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::planner {

/// One enumerator and its served name.
template <typename Enum>
struct Name {
  Enum value;
  std::string_view text;
};

template <typename Enum>
[[nodiscard]] std::string_view name_of(std::span<const Name<Enum>> names, Enum value) noexcept {
  for (const auto& name : names)
    if (name.value == value) return name.text;
  return "unknown";
}

/// Errors: UnknownName for `field`, listing the legal names.
template <typename Enum>
[[nodiscard]] Result<Enum> parse_name(std::span<const Name<Enum>> names, std::string_view text,
                                      std::string_view field) {
  MC2_ASSIGN(const auto* const found, find_named(names, text, &Name<Enum>::text, field, "name"));
  return found->value;
}

} // namespace mc2::planner
