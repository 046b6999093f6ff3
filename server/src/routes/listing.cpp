#include "routes/listing.hpp"

#include <nlohmann/json.hpp>

#include <limits>

#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "plan_question.hpp"
#include "routes/precondition.hpp"

namespace mc2::server {
namespace {

constexpr int kMaxPage = 1000;

/// Older stores hold purposes that are not UTF-8; they must not make the whole page fail.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Without blanks, like every document.
std::string entry_of(const store::Listed& item, const std::string& details) {
  return R"({"created_at":)" + quoted(item.created_at) + R"(,"digest":)" + quoted(item.digest) + R"(,"machine":)" +
         quoted(item.key.fingerprint_digest) + R"(,"op":)" + store::encode(item.key.op) +
         (item.key.purpose.empty() ? "" : R"(,"purpose":)" + quoted(item.key.purpose)) + details + "}";
}

template <typename T>
Result<void> read_number(const Query& query, const char* name, std::int64_t most, std::optional<T>& value) {
  MC2_ASSIGN(const auto given, query.integer(name, 1, most));
  if (given) value = static_cast<T>(*given);
  return {};
}

template <typename T, typename Parse>
Result<void> read_name(const Query& query, const char* name, const Parse& parse, std::optional<T>& value) {
  const auto given = query.text(name);
  if (!given) return {};
  MC2_ASSIGN(value, parse(*given));
  return {};
}

} // namespace

Result<store::ListFilter> read_filter(const Query& query) {
  store::ListFilter filter;
  std::optional<int> limit;
  const auto results = {read_name(query, "op", planner::parse_op_kind, filter.kind),
                        read_name(query, "dtype", planner::parse_dtype, filter.dtype),
                        read_number(query, "m", planner::kMaxSize, filter.m),
                        read_number(query, "n", planner::kMaxSize, filter.n),
                        read_number(query, "k", planner::kMaxSize, filter.k),
                        read_number(query, "ranks", planner::kMaxWorldSize, filter.world_size),
                        read_number(query, "before", std::numeric_limits<std::int64_t>::max(), filter.before_row),
                        read_number(query, "limit", kMaxPage, limit)};
  for (const auto& result : results)
    if (!result) return result.error();
  MC2_ASSIGN(filter.fingerprint_digest, read_machine(query));
  filter.limit = limit.value_or(filter.limit);
  MC2_TRY(query.require_all_known());
  return filter;
}

Result<Response> list_documents(Context& context, const Call& call, std::string_view schema, const List& list,
                                const Details& details) {
  MC2_ASSIGN(const auto filter, read_filter(call.query));
  store::ListFilter asked = filter;
  ++asked.limit; // one more than is shown tells whether another page follows
  return context.store.read([&](const store::Store& store) -> Result<Response> {
    MC2_ASSIGN(auto items, list(store, asked));
    const bool has_more = std::cmp_greater(items.size(), filter.limit);
    if (has_more) items.pop_back();
    const auto entry = [&](const store::Listed& item) { return entry_of(item, details ? details(store, item) : ""); };
    return json_response(R"({"items":[)" + list_text(items, entry, ",") + R"(],"next":)" +
                         (has_more ? std::to_string(items.back().row_id) : "null") + R"(,"schema":")" +
                         std::string(schema) + "\"}");
  });
}

Result<Response> keep_document(Context& context, const Call& call, const std::string& folder,
                               const std::function<Result<std::string>(store::Store&, const store::MayReplace&)>& put) {
  Precondition precondition(call.request);
  MC2_TRY(precondition.validate());
  const auto kept = context.store.write(
      [&](store::Store& store) { return put(store, [&](const auto& digest) { return precondition.allows(digest); }); });
  if (auto refusal = precondition.refusal()) return *refusal;
  if (!kept) return kept.error();
  return kept_response(folder, kept.value());
}

Result<Response> remove_document(Context& context, const Call& call, const std::string& digest, Remove remove) {
  Precondition precondition(call.request);
  MC2_TRY(precondition.validate());
  if (!precondition.allows(digest)) return *precondition.refusal();
  MC2_TRY(context.store.write([&](store::Store& store) { return (store.*remove)(digest); }));
  return Response{.status = 204, .content_type = {}};
}

Response document_response(std::string document, const std::string& digest) {
  Response response = json_response(std::move(document));
  response.etag = "\"" + digest + "\"";
  return response;
}

} // namespace mc2::server
