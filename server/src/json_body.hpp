#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "mc2/planner/error.hpp"

namespace mc2::server {

inline constexpr int kMaxJsonDepth = 32;

/// A request body as a JSON object with these keys and no others. Errors: Malformed.
[[nodiscard]] planner::Result<nlohmann::json> parse_object(const std::string& body,
                                                           std::initializer_list<std::string_view> keys);

} // namespace mc2::server
