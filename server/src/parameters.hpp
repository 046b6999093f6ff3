#pragma once

#include <string>
#include <string_view>

namespace mc2::server {

/// A text of the libraries as a request's parameters name things: "--keep-good" becomes "keep_good".
[[nodiscard]] std::string as_parameters(std::string_view text);

} // namespace mc2::server
