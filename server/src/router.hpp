#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "context.hpp"

namespace mc2::server {

/// One row of the table of routes. No two match the same path and method.
struct Route {
  std::string_view method;
  std::string_view pattern; ///< at most one "{id}", a whole segment
  Result<Response> (*answer)(Context& context, const Call& call);
  Access access = Access::Admin; ///< what it takes; Open: nothing of the store is answered
  Needs needs = {};
  /// The answer without waiting; none where it is not known.
  std::optional<Response> (*known)(Context& context, const Request& request) = nullptr;
};

/// Every route, in the order of schemas/openapi.yaml.
[[nodiscard]] std::span<const Route> routes() noexcept;

/// @param path  decoded
[[nodiscard]] Match find_route(std::string_view method, std::string_view path);

/// The same by a request's target, whose path may be percent-encoded: none for one that cannot be decoded.
[[nodiscard]] Match route_of(std::string_view method, std::string_view target);

} // namespace mc2::server
