#include "routes/listing.hpp"

#include <nlohmann/json.hpp>

#include "mc2/store/codec.hpp"

namespace mc2::server {
namespace {

constexpr int kMaxPage = 1000;

/// The operator as every document has it.
nlohmann::json op_json(const planner::OpSpec& op) {
  return nlohmann::json::parse(store::encode(store::PlanRequest{op, {}}))["op"];
}

template <typename T>
Result<void> read_number(const Query& query, const char* name, std::optional<T>& value) {
  const auto given = query.integer(name);
  if (!given) return given.error();
  if (given.value() && !std::in_range<T>(*given.value())) return Error{ErrorCode::InvalidSpec, name, "is out of range"};
  if (given.value()) value = static_cast<T>(*given.value());
  return {};
}

template <typename T, typename Parse>
Result<void> read_name(const Query& query, const char* name, const Parse& parse, std::optional<T>& value) {
  const auto given = query.text(name);
  if (!given) return {};
  const auto parsed = parse(*given);
  if (!parsed) return parsed.error();
  value = parsed.value();
  return {};
}

} // namespace

Result<store::ListFilter> read_filter(const Query& query) {
  store::ListFilter filter;
  std::optional<int> limit;
  const auto results = {read_name(query, "op", planner::parse_op_kind, filter.kind),
                        read_name(query, "dtype", planner::parse_dtype, filter.dtype),
                        read_number(query, "m", filter.m),
                        read_number(query, "n", filter.n),
                        read_number(query, "k", filter.k),
                        read_number(query, "ranks", filter.world_size),
                        read_number(query, "before", filter.before_row),
                        read_number(query, "limit", limit)};
  for (const auto& result : results)
    if (!result) return result.error();
  filter.fingerprint_digest = query.text("machine").value_or("");
  filter.limit = limit.value_or(filter.limit);
  if (filter.limit < 1 || filter.limit > kMaxPage)
    return Error{ErrorCode::InvalidSpec, "limit", "must be 1 to " + std::to_string(kMaxPage)};
  if (auto known = query.require_all_known(); !known) return known.error();
  return filter;
}

Response list_response(std::string_view schema, std::vector<store::Listed> items, int limit) {
  const bool has_more = std::cmp_greater(items.size(), limit);
  if (has_more) items.resize(static_cast<std::size_t>(limit));
  nlohmann::json listed = nlohmann::json::array();
  for (const store::Listed& item : items) {
    nlohmann::json entry{{"digest", item.digest},
                         {"op", op_json(item.key.op)},
                         {"machine", item.key.fingerprint_digest},
                         {"created_at", item.created_at}};
    if (!item.key.purpose.empty()) entry["purpose"] = item.key.purpose;
    listed.push_back(std::move(entry));
  }
  nlohmann::json document{{"schema", schema}, {"items", std::move(listed)}, {"next", nullptr}};
  if (has_more) document["next"] = items.back().row_id;
  return json_response(document.dump());
}

} // namespace mc2::server
