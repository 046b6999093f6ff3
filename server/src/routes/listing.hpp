#pragma once

#include <string>
#include <vector>

#include "context.hpp"

namespace mc2::server {

/// Parameters of a listing: op, m, n, k, dtype, ranks, machine (a whole digest), limit (1 to 1000), before.
/// Errors: InvalidSpec, UnknownName, naming the parameter.
[[nodiscard]] Result<store::ListFilter> read_filter(const Query& query);

/// {"schema": SCHEMA, "items": [...], "next": row or null}: ask again with before=next for the page that follows.
[[nodiscard]] Response list_response(std::string_view schema, const std::vector<store::Listed>& items, int limit);

} // namespace mc2::server
