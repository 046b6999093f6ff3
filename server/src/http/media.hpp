#pragma once

#include <span>
#include <string_view>

namespace mc2::server {

/// A form in which a resource can be had.
struct Form {
  std::string_view name;       ///< of the parameter `format`
  std::string_view media_type; ///< of the header Accept, without parameters
};

/// The form that a header Accept prefers (RFC 9110 §12.5.1), the first of equals; none of them where it wants another.
/// @param accept  empty: anything
[[nodiscard]] const Form* choose_form(std::string_view accept, std::span<const Form> forms) noexcept;

/// Whether a body of this Content-Type may be JSON: one that says so, or nothing, or what curl says of every body.
[[nodiscard]] bool may_be_json(std::string_view content_type) noexcept;

} // namespace mc2::server
