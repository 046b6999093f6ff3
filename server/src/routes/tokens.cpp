#include <nlohmann/json.hpp>
#include <optional>

#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/token.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

/// The token that a request wants.
struct Wanted {
  store::Role role = store::Role::Read;
  std::string name;
  std::optional<std::string> expires;
};

constexpr std::size_t kShownKey = 64; ///< bytes that messages show

/// Errors: Malformed, UnknownName.
Result<Wanted> read_wanted(std::string_view body) {
  MC2_TRY(store::require_json(body));
  const auto document = nlohmann::json::parse(body, nullptr, false);
  if (!document.is_object())
    return Error{ErrorCode::Malformed, "",
                 R"(must be an object such as {"role": "read", "name": "ci", "expires": "90d"})"};
  Wanted wanted;
  for (const auto& [key, value] : document.items()) {
    if (!value.is_string()) return Error{ErrorCode::Malformed, one_line(key, kShownKey), "must be a text"};
    const auto& text = value.get_ref<const std::string&>();
    if (key == "role") {
      MC2_ASSIGN(wanted.role, store::parse_role(text));
    } else if (key == "name") {
      wanted.name = text;
    } else if (key == "expires") {
      wanted.expires = text;
    } else {
      return Error{ErrorCode::Malformed, one_line(key, kShownKey), "is not known; known: role, name, expires"};
    }
  }
  if (!document.contains("role")) return Error{ErrorCode::Malformed, "role", "is missing; legal: read, write, admin"};
  return wanted;
}

/// Refuses to make the first token: that is made on the service's own machine. Errors: Mismatch.
Result<void> require_tokens_already(const store::Store& store) {
  MC2_ASSIGN(const auto tokens, store.list_tokens());
  if (!tokens.is_empty()) return {};
  return Error{ErrorCode::Mismatch, "", "the first token is made by mc2 token create, where the store is"};
}

} // namespace

Result<Response> list_tokens(Context& context, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  MC2_ASSIGN(const auto tokens, context.store.read([](const store::Store& store) { return store.list_tokens(); }));
  return json_response(store::encode(tokens, context.surroundings.utc_now()));
}

Result<Response> add_token(Context& context, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  MC2_ASSIGN(auto wanted, read_wanted(call.request.body));
  MC2_ASSIGN(const auto made,
             store::make_token(wanted.role, std::move(wanted.name), wanted.expires, context.surroundings.utc_now()));
  MC2_TRY(context.store.write([&](store::Store& store) -> Result<void> {
    MC2_TRY(require_tokens_already(store));
    return store.add_token(made.token);
  }));
  nlohmann::json answer{{"token", made.token.id}, {"text", made.text}, {"role", to_string(made.token.role)}};
  if (!made.token.expires_at.empty()) answer["expires_at"] = made.token.expires_at;
  Response response = json_response(answer, 201);
  response.headers = {{"Location", "/v1/tokens/" + made.token.id}, {"Cache-Control", "no-store"}};
  return response;
}

Result<Response> revoke_token(Context& context, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  MC2_TRY(context.store.write(
      [&](store::Store& store) { return store.revoke_token(call.id, context.surroundings.utc_now()); }));
  return Response{.status = 204, .content_type = {}};
}

} // namespace mc2::server
