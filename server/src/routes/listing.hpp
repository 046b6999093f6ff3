#pragma once

#include <functional>
#include <string>
#include <vector>

#include "context.hpp"

namespace mc2::server {

/// Reads the parameters of a listing: op, m, n, k, dtype, ranks, machine (a digest or its first digits), limit (1 to
/// 1000), before. Errors: InvalidSpec, UnknownName, naming the parameter.
[[nodiscard]] Result<store::ListFilter> read_filter(const Query& query);

/// Lists documents of one sort, such as `&store::Store::list_samples`.
using List = std::function<Result<std::vector<store::Listed>>(const store::Store&, const store::ListFilter&)>;
/// The listing functions of a store, for names that have overloads.
using ListOfStore = Result<std::vector<store::Listed>> (store::Store::*)(const store::ListFilter&) const;
/// Finds a document by its digest, or by a prefix of that.
template <typename Stored>
using Find = Result<Stored> (store::Store::*)(const std::string&) const;
using Remove = Result<void> (store::Store::*)(const std::string& digest);
/// Additional members of an entry, for one sort of documents: ',"NAME":VALUE' each.
using Details = std::function<std::string(const store::Store&, const store::Listed&)>;

/// Lists kept documents as {"schema": SCHEMA, "items": [...], "next": row or null}. The next page is the answer to
/// before=next. Errors: as read_filter.
[[nodiscard]] Result<Response> list_documents(Context& context, const Call& call, std::string_view schema,
                                              const List& list, const Details& details = {});

/// Keeps a document and answers 201; 412 where a precondition does not hold. Errors: as `put` and
/// Precondition::validate.
/// @param folder  e.g. "/v1/plans/"
[[nodiscard]] Result<Response> keep_document(
    Context& context, const Call& call, const std::string& folder,
    const std::function<Result<std::string>(store::Store&, const store::MayReplace&)>& put);

/// Removes a kept document and answers 204; 412 where a precondition does not hold. Errors: as `remove` and
/// Precondition::validate.
[[nodiscard]] Result<Response> remove_document(Context& context, const Call& call, const std::string& digest,
                                               Remove remove);

/// The answer with a kept document, whose digest is the ETag.
[[nodiscard]] Response document_response(std::string document, const std::string& digest);

/// Finds the document that a call names. Errors: InvalidSpec for a parameter that is not known; as `find`.
template <typename Stored>
[[nodiscard]] Result<Stored> find_kept(Context& context, const Call& call, Find<Stored> find) {
  MC2_TRY(call.query.require_all_known());
  return context.store.read([&](const store::Store& store) { return (store.*find)(call.id); });
}

/// The route that gets a kept document. Errors: as find_kept.
template <typename Stored, Find<Stored> find>
[[nodiscard]] Result<Response> answer_kept(Context& context, const Call& call) {
  MC2_ASSIGN(auto kept, find_kept<Stored>(context, call, find));
  return document_response(std::move(kept.document), kept.digest);
}

/// The route that removes a kept document. Errors: as find_kept and remove_document.
template <typename Stored, Find<Stored> find, Remove remove>
[[nodiscard]] Result<Response> remove_kept(Context& context, const Call& call) {
  MC2_ASSIGN(const auto kept, find_kept<Stored>(context, call, find));
  return remove_document(context, call, kept.digest, remove);
}

} // namespace mc2::server
