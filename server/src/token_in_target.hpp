#pragma once

#include <string>
#include <string_view>

namespace mc2::server {

/// Whether the target has a token: a parameter that is called so, or any text of a token's form. In a target, a token
/// gets into the logs of proxies and into a browser's history (RFC 6750 §2.3).
[[nodiscard]] bool has_token(std::string_view target);
/// The target for a log: cut off before path or query if that has a token.
[[nodiscard]] std::string without_tokens(std::string_view target);

} // namespace mc2::server
