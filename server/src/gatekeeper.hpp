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

/// Who a client is, by the token that it shows.
struct Bearer {
  Access granted = Access::Open;
  std::string token_id;    ///< empty: no token that counts was shown
  bool has_failed = false; ///< one was shown that does not count
};

/// Decides what clients may do. Works on tokens in memory: no client without one costs the store anything.
/// Threads: safe to share.
class Gatekeeper {
 public:
  explicit Gatekeeper(const Config& config) : failures_(config.limits.refused_tokens_per_s) { set_rules(config); }

  /// Who has to show a token, from now on.
  void set_rules(const Config& config);
  /// From now on these tokens count.
  void set_tokens(const store::TokenList& list);

  /// Revoked and damaged ones included.
  [[nodiscard]] bool has_tokens() const { return state()->has_any; }

  /// @param authorization  the header; @param now  ISO 8601 UTC, asked for only where a token expires
  template <typename Now>
  [[nodiscard]] Bearer identify(std::string_view authorization, const Now& now) const {
    const auto state = this->state();
    if (!state->requires_tokens.value_or(state->has_any)) return {Access::Admin, {}, false};
    const store::Token* token = state->find(bearer_text(authorization));
    const bool is_valid = token != nullptr && (token->expires_at.empty() || store::is_valid_at(*token, now()));
    if (is_valid) return {access_of(token->role), token->id, false};
    return {state->has_public_read ? Access::Read : Access::Open, {}, !authorization.empty()};
  }

  /// Why a client may not do something: 401, 403, or 429 for one that fails too often. Sets what the standards ask for.
  [[nodiscard]] Response refuse(const Bearer& bearer, Access needed, const std::string& client,
                                RateLimiter::Clock::time_point now, std::string_view request_id);

 private:
  struct State {
    std::optional<bool> requires_tokens; ///< unset: where there are some
    bool has_public_read = false;
    bool has_any = false;
    std::unordered_map<std::string, store::Token> by_id; ///< that are not revoked

    /// The one whose text this is; null: none.
    [[nodiscard]] const store::Token* find(std::string_view text) const;
  };

  [[nodiscard]] static std::string_view bearer_text(std::string_view authorization) noexcept;
  [[nodiscard]] static Access access_of(store::Role role) noexcept;
  /// Shared with those who are being identified while a new one is set.
  [[nodiscard]] std::shared_ptr<const State> state() const;

  RateLimiter failures_;
  mutable std::mutex mutex_;
  std::shared_ptr<const State> state_ = std::make_shared<const State>(); ///< under mutex_
};

/// Whether a request without a token may name this host. A service on loopback is asked as localhost or by an address:
/// another name with a dot is one that a page of another site may have made to point here (DNS rebinding). Other
/// services are asked by any name.
/// @param client   "unix" for those on the Unix socket, whom no browser reaches
/// @param address  that the service listens on
[[nodiscard]] bool may_be_asked_as(std::string_view host, std::string_view client, const std::string& address);

/// Whether a page of another site sent this (its Origin is not the host that it asks): browsers let any page send to
/// loopback.
[[nodiscard]] bool is_of_another_site(std::string_view origin, std::string_view host) noexcept;

} // namespace mc2::server
