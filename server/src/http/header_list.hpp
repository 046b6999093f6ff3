#pragma once

#include <cstdint>
#include <string_view>

#include "mc2/planner/text.hpp"

namespace mc2::server {

/// Whether two words are equal; ASCII case is ignored.
[[nodiscard]] bool equals_ignoring_case(std::string_view one, std::string_view other) noexcept;

/// How entity tags are compared (RFC 9110 §8.8.3.2).
enum class Tags : std::uint8_t {
  Weak,   ///< by value, without "W/"
  Strong, ///< a tag with "W/" equals none
};

/// Whether a header If-Match or If-None-Match, which is a list or "*" for any, names the tag.
[[nodiscard]] bool names_tag(std::string_view header, std::string_view tag, Tags comparison) noexcept;

/// Whether a header If-Match or If-None-Match is well formed: "*", or a list of tags, each in double quotes and perhaps
/// with "W/" before it (RFC 9110 §13.1.1). Empty, as without the header, is well formed.
[[nodiscard]] bool is_tag_list(std::string_view header) noexcept;

/// The weight `q` among parameters (RFC 9110 §12.4.2): 1 without `q`, 0 where it is no number from 0 to 1.
[[nodiscard]] double weight_of(std::string_view parameters) noexcept;

} // namespace mc2::server
