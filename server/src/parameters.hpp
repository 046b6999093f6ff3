#pragma once

#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"

namespace mc2::server {

/// Rewrites the options that a library's message names as parameters of a request: "--keep-good" becomes "keep_good".
[[nodiscard]] std::string as_parameters(std::string_view text);

/// An error with its field and message rewritten that way.
[[nodiscard]] Error as_parameters(const Error& error);

} // namespace mc2::server
