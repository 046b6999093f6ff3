#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "http/rate_limiter.hpp"
#include "mc2/server/config.hpp"
#include "mc2/server/message.hpp"
#include "mc2/store/token.hpp"

namespace mc2::server {

/// What a client may do, by the token that it shows.
struct Bearer {
  Access granted = Access::Open;
  std::string token_id;    ///< empty: no valid token was shown
  bool has_failed = false; ///< a token was shown that is not valid
};

/// Decides what clients may do. Keeps the tokens in memory, so that a client without a token causes no reading of the
/// store. Threads: safe to share.
class Gatekeeper {
 public:
  explicit Gatekeeper(const Config& config)
      : lends_token_(config.lends_token()), failures_(config.limits.refused_tokens_per_s) {
    set_rules(config);
  }

  /// Takes from `config` who has to show a token, and how many refusals an address gets.
  void set_rules(const Config& config);
  /// Replaces the tokens that are valid.
  void set_tokens(const store::TokenList& list);

  /// Whether the store has tokens: revoked, expired and damaged ones count.
  [[nodiscard]] bool has_tokens() const { return state()->has_any; }

  /// What a client may do. Without required tokens that is everything; only reading, if tokens are merely not required
  /// yet and this service lends its own one.
  /// @param authorization  the header of this name; empty: absent
  /// @param now  called for the time as ISO 8601 UTC, only where the token expires
  template <typename Now>
  [[nodiscard]] Bearer identify(std::string_view authorization, const Now& now) const {
    const auto state = this->state();
    if (!state->requires_tokens.value_or(state->has_any))
      return {lends_token_ && !state->requires_tokens ? Access::Read : Access::Admin, {}, !authorization.empty()};
    const store::Token* token = state->find(bearer_text(authorization));
    const bool is_valid = token != nullptr && (token->expires_at.empty() || store::is_valid_at(*token, now()));
    if (is_valid) return {access_of(token->role), token->id, false};
    return {state->has_public_read ? Access::Read : Access::Open, {}, !authorization.empty()};
  }

  /// The refusal of a request: 403 for a token whose role is too small, else 401, or 429 for an address that gets too
  /// many refusals. Sets WWW-Authenticate or Retry-After.
  [[nodiscard]] Response refuse(const Bearer& bearer, Access needed, const std::string& client,
                                RateLimiter::Clock::time_point now, std::string_view request_id);

 private:
  struct State {
    std::optional<bool> requires_tokens; ///< unset: required where there are tokens
    bool has_public_read = false;
    bool has_any = false;
    std::unordered_map<std::string, store::Token> by_id; ///< without revoked tokens

    /// The token with this text; null: none.
    [[nodiscard]] const store::Token* find(std::string_view text) const;
  };

  [[nodiscard]] static std::string_view bearer_text(std::string_view authorization) noexcept;
  [[nodiscard]] static Access access_of(store::Role role) noexcept;
  /// Shared with calls of identify() that go on while a new state is set.
  [[nodiscard]] std::shared_ptr<const State> state() const;

  bool lends_token_; ///< of the start: what a replica sends its leader does not change later
  RateLimiter failures_;
  mutable std::mutex mutex_;
  std::shared_ptr<const State> state_ = std::make_shared<const State>(); ///< under mutex_
};

/// Whether a request without a token may name this host. Protects a service on loopback against DNS rebinding: a page
/// of another site can make a name of its own point to loopback. So such a service may be asked by an IP address, by a
/// name without a dot or below .localhost. Other services may be asked by any name.
/// @param client   address of the client; "unix" on the Unix socket, which no browser reaches
/// @param address  the service listens on
[[nodiscard]] bool may_be_asked_as(std::string_view host, std::string_view client, const std::string& address);

/// Whether a page of another site sent the request: its Origin is not the host that it asks. Browsers let any page send
/// requests to loopback.
[[nodiscard]] bool is_of_another_site(std::string_view origin, std::string_view host) noexcept;

} // namespace mc2::server
