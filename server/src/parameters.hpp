#pragma once

#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"

namespace mc2::server {

/// A text of the libraries as a request's parameters name things: "--keep-good" becomes "keep_good".
[[nodiscard]] std::string as_parameters(std::string_view text);

/// The error of a question that came as parameters, in their words.
[[nodiscard]] Error as_parameters(const Error& error);

} // namespace mc2::server
