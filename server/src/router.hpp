#pragma once

#include <span>
#include <string>
#include <string_view>

#include "context.hpp"

namespace mc2::server {

/// One row of the table of routes.
struct Route {
  std::string_view method;
  std::string_view pattern; ///< at most one "{id}", a whole segment
  Result<Response> (*answer)(Context& context, const Call& call);
  Access access = Access::Admin; ///< what it takes; Open: nothing of the store is answered
  Needs needs = {};              ///< `writer` follows from `access`
};

/// Every route, in the order of schemas/openapi.yaml.
[[nodiscard]] std::span<const Route> routes() noexcept;

/// The route of a request; where there is none, the methods that the path does have.
struct Match {
  const Route* route = nullptr;
  std::string id;
  std::string allowed; ///< "GET, HEAD, POST"; empty: no such path
};

[[nodiscard]] Match find_route(std::string_view method, std::string_view path);

} // namespace mc2::server
