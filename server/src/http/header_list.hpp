#pragma once

#include <string_view>

#include "mc2/planner/text.hpp"

namespace mc2::server {

/// Whether two words are the same, however their (ASCII) letters are written.
[[nodiscard]] bool equals_ignoring_case(std::string_view one, std::string_view other) noexcept;

/// How tags are compared (RFC 9110 §8.8.3.2).
enum class Tags : std::uint8_t {
  Weak,   ///< by their value
  Strong, ///< those that are called weak equal none
};

/// Whether a header If-Match or If-None-Match names the tag: a list, or "*" for any.
[[nodiscard]] bool names_tag(std::string_view header, std::string_view tag, Tags comparison) noexcept;

/// The weight `q` among parameters (RFC 9110 §12.4.2): 1 where there is none, 0 where it is no number of 0 to 1.
[[nodiscard]] double weight_of(std::string_view parameters) noexcept;

} // namespace mc2::server
