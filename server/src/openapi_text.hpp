#pragma once

#include <string_view>

namespace mc2::server {

/// schemas/openapi.yaml, as it was when this program was built.
extern const std::string_view kOpenApiText;

} // namespace mc2::server
