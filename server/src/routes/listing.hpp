#pragma once

#include <string>
#include <vector>

#include "context.hpp"

namespace mc2::server {

/// Parameters of a listing: op, m, n, k, dtype, ranks, machine (a digest, or its first digits), limit (1 to 1000),
/// before. Errors: InvalidSpec, UnknownName, naming the parameter.
[[nodiscard]] Result<store::ListFilter> read_filter(const Query& query);

/// {"schema": SCHEMA, "items": [...], "next": row or null}: ask again with before=next for the page that follows.
/// @param items  one more than the page holds, if there are more
[[nodiscard]] Response list_response(std::string_view schema, std::vector<store::Listed> items, int limit);

/// A list of documents that the store keeps. Errors: as read_filter.
[[nodiscard]] Result<Response> list_documents(
    Context& context, const Call& call, std::string_view schema,
    Result<std::vector<store::Listed>> (store::Store::*list)(const store::ListFilter&) const);

/// A kept document with its digest as ETag.
[[nodiscard]] Response document_response(std::string document, const std::string& digest);

} // namespace mc2::server
