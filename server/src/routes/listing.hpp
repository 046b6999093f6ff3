#pragma once

#include <string>
#include <vector>

#include "context.hpp"

namespace mc2::server {

/// Parameters of a listing: op, m, n, k, dtype, ranks, machine (a whole digest), limit (1 to 1000), before.
/// Errors: InvalidSpec, UnknownName, naming the parameter.
[[nodiscard]] Result<store::ListFilter> read_filter(const Query& query);

/// {"schema": SCHEMA, "items": [...], "next": row or null}: ask again with before=next for the page that follows.
/// @param items  one more than the page holds, if there are more
[[nodiscard]] Response list_response(std::string_view schema, std::vector<store::Listed> items, int limit);

/// The filter for list_response: one more than is shown tells whether another page follows.
[[nodiscard]] inline store::ListFilter with_one_more(store::ListFilter filter) {
  ++filter.limit;
  return filter;
}

} // namespace mc2::server
