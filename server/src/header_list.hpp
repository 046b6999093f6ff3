#pragma once

#include <string_view>

namespace mc2::server {

/// The part of a header's list before the separator, without blanks around it (RFC 9110 §5.6.1); it is taken off `rest` along
/// with the separator.
[[nodiscard]] std::string_view take_part(std::string_view& rest, char separator) noexcept;

} // namespace mc2::server
