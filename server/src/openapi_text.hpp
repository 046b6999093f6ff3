#pragma once

#include <string_view>

namespace mc2::server {

/// The text of schemas/openapi.yaml when this program was built.
extern const std::string_view kOpenApiText;

} // namespace mc2::server
