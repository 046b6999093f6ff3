#include "gatekeeper.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "http/header_list.hpp"
#include "mc2/server/service.hpp"

namespace mc2::server {

void Gatekeeper::set_rules(const Config& config) {
  failures_.set_rate(config.limits.refused_tokens_per_s);
  const std::lock_guard lock(mutex_);
  auto next = std::make_shared<State>(*state_);
  next->requires_tokens = config.requires_tokens;
  next->has_public_read = config.has_public_read;
  state_ = std::move(next);
}

void Gatekeeper::set_tokens(const store::TokenList& list) {
  std::unordered_map<std::string, store::Token> by_id;
  for (const store::Token& token : list.tokens)
    if (token.revoked_at.empty()) by_id.emplace(token.id, token);
  const std::lock_guard lock(mutex_);
  auto next = std::make_shared<State>(*state_);
  next->has_any = !list.is_empty();
  next->by_id = std::move(by_id);
  state_ = std::move(next);
}

std::shared_ptr<const Gatekeeper::State> Gatekeeper::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

const store::Token* Gatekeeper::State::find(std::string_view text) const {
  const auto found = by_id.find(std::string(store::token_id(text)));
  return found != by_id.end() && store::is_text_of(found->second, text) ? &found->second : nullptr;
}

std::string_view Gatekeeper::bearer_text(std::string_view authorization) noexcept {
  constexpr std::string_view kScheme = "Bearer ";
  if (!equals_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return {};
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' ', kScheme.size()), authorization.size()));
  return authorization;
}

Access Gatekeeper::access_of(store::Role role) noexcept {
  switch (role) {
    case store::Role::Read: return Access::Read;
    case store::Role::Write: return Access::Write;
    case store::Role::Admin: return Access::Admin;
  }
  return Access::Open;
}

Response Gatekeeper::refuse(const Bearer& bearer, Access needed, const std::string& client,
                            RateLimiter::Clock::time_point now, std::string_view request_id) {
  if (!bearer.token_id.empty()) {
    const std::string role(needed == Access::Admin ? "admin" : needed == Access::Write ? "write" : "read");
    return problem(403, "this takes a token of role " + role + " (mc2 token create --role " + role + ")", request_id,
                   {{"WWW-Authenticate", R"(Bearer realm="mc2", error="insufficient_scope")"}});
  }
  if (!failures_.admit(client, now))
    return problem(429, "too many requests without a valid token from this address; wait a second", request_id,
                   {{"Retry-After", "1"}});
  if (bearer.has_failed)
    return problem(401, "this token is unknown, revoked or expired; mc2 token list shows those there are", request_id,
                   {{"WWW-Authenticate", R"(Bearer realm="mc2", error="invalid_token")"}});
  return problem(401, "this takes a token in the header Authorization: Bearer (mc2 token create)", request_id,
                 {{"WWW-Authenticate", R"(Bearer realm="mc2")"}});
}

namespace {

bool is_below_localhost(std::string_view name) {
  constexpr std::string_view kBelow = ".localhost";
  return name.size() > kBelow.size() && equals_ignoring_case(name.substr(name.size() - kBelow.size()), kBelow);
}

} // namespace

bool may_be_asked_as(std::string_view host, std::string_view client, const std::string& address) {
  boost::system::error_code error;
  const auto listening = boost::asio::ip::make_address(address, error);
  if (error || !listening.is_loopback() || client == "unix" || host.empty()) return true; // no host: not from a browser
  std::string name(host);
  const std::size_t colon = name.rfind(':');
  if (colon != std::string::npos && name.find(']', colon) == std::string::npos) name.resize(colon);
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  boost::asio::ip::make_address(name, error);
  if (name.find_first_of("@?#\\") != std::string::npos) return false; // what follows may be the host to others
  if (name.ends_with('.')) name.pop_back();                           // the same name, written from the root
  return !error || name.find('.') == std::string::npos || is_below_localhost(name);
}

bool is_of_another_site(std::string_view origin, std::string_view host) noexcept {
  if (origin.empty()) return false; // not from a browser, or a reading request of the service's own page
  const std::size_t authority = origin.find("://");
  return authority == std::string_view::npos || !equals_ignoring_case(origin.substr(authority + 3), host);
}

} // namespace mc2::server
