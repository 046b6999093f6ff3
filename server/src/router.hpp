#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "context.hpp"

namespace mc2::server {

/// A row of the table of routes. No two rows match the same path and method.
struct Route {
  std::string_view method;
  std::string_view pattern; ///< a path with at most one "{id}", which is a whole segment
  Result<Response> (*answer)(Context& context, const Call& call);
  Access access = Access::Admin; ///< what a client needs for this route
  Needs needs = {};
  /// Gives the answer without waiting, or nothing where it is not known; null: the route never knows.
  std::optional<Response> (*known)(Context& context, const Request& request) = nullptr;
};

/// Every route, in the order of schemas/openapi.yaml.
[[nodiscard]] std::span<const Route> routes() noexcept;

/// @param path  decoded
[[nodiscard]] Match find_route(std::string_view method, std::string_view path);

/// As find_route(), for a request's target, whose path may be percent-encoded. No route for a path that cannot be
/// decoded.
[[nodiscard]] Match route_of(std::string_view method, std::string_view target);

} // namespace mc2::server
