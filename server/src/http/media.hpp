#pragma once

#include <span>
#include <string_view>

namespace mc2::server {

/// A form in which a resource can be sent.
struct Form {
  std::string_view name;       ///< value of the parameter `format`
  std::string_view media_type; ///< in the header Accept, without parameters
};

/// The form that a header Accept prefers (RFC 9110 §12.5.1), the first of several equals; null if it accepts none of
/// them.
/// @param accept  empty: anything is accepted
[[nodiscard]] const Form* choose_form(std::string_view accept, std::span<const Form> forms) noexcept;

/// Whether a body of this Content-Type may be JSON: the type says JSON, is missing, or is what curl sends with every
/// body.
[[nodiscard]] bool may_be_json(std::string_view content_type) noexcept;

} // namespace mc2::server
