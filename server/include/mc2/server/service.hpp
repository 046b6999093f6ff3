#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/server/config.hpp"
#include "mc2/server/message.hpp"

namespace mc2::server {

/// What is known of a request once its headers have arrived, as far as it decides who may pass.
struct RequestHead {
  std::string_view client; ///< its address; several may share one
  std::string_view method, target;
  std::string_view authorization, origin, host, content_encoding, content_type, fetch_site,
      via; ///< headers; empty: absent
  std::string_view id;
};

/// Whether a request may go on, and as what.
struct Admission {
  std::optional<Response> refusal = std::nullopt; ///< 401, 403, 415, 429
  Access granted = Access::Open;
  std::string token_id = {}; ///< of the token that was shown; empty: none that counts
  Match match = {};          ///< of the request, refused or not
};

/// What a service needs of the world.
struct Surroundings {
  std::function<std::string()> utc_now;               ///< the time as ISO 8601, for what is kept
  std::function<void(const std::string&)> event = {}; ///< told a line for whoever looks after the service; may be empty
  std::stop_token stop = {};                          ///< gives opening up

  /// A line, if there is whom to tell.
  void tell(const std::string& line) const {
    if (event) event(line);
  }
};

/// Answers requests from a store; knows nothing of sockets. schemas/openapi.yaml describes every answer.
class Service {
 public:
  /// Opens or creates the store.
  /// Errors: as store::Store::open, Config::validate. Throws SystemError.
  [[nodiscard]] static Result<std::unique_ptr<Service>> open(const Config& config, Surroundings surroundings);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Decides from the headers alone, before a body is read; the store is not asked. Threads: safe to share.
  [[nodiscard]] Admission admit(const RequestHead& head) noexcept;

  /// Whether the store has tokens, whatever their state.
  [[nodiscard]] bool has_tokens() const noexcept;

  /// Takes from `config` who has to show a token. Threads: any.
  void reload(const Config& config);

  /// Threads: safe to share. Every failure becomes a problem document (RFC 9457).
  [[nodiscard]] Response answer(const Request& request) noexcept;

  /// The answer that is known already, made without waiting; none where answer() has to make it. Threads: as answer().
  [[nodiscard]] std::optional<Response> known(const Request& request) noexcept;

  /// Counts an answer that answer() does not: what admit() refused, what could not be read, and the last of those to a
  /// request that waits.
  void count_elsewhere(std::string_view method, std::string_view target, int status);

  /// What /metrics says of connections. Threads: safe to share.
  void count_connection(bool is_opened) noexcept;
  /// @param reason  "limit", "address", "timeout", "tls": text that stays
  void count_refused_connection(std::string_view reason) noexcept;

  /// Whether an answer that would tell of what comes after `revision` of the store (Watch) can tell more, or ends: the
  /// store has another revision, or the service stops. Threads: safe to share.
  [[nodiscard]] bool has_news(std::int64_t revision) const noexcept;

  /// @param wake  called, on any thread, whenever has_news() may have become true, until what is returned is gone; must
  ///              neither wait nor throw
  /// @param most  null is returned where so many have subscribed
  [[nodiscard]] std::shared_ptr<void> subscribe(std::function<void()> wake, int most);

  /// From here on /readyz says no, so that no new requests are sent here, and nobody waits for changes any more.
  void start_draining() noexcept;

 private:
  struct Impl;
  explicit Service(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A problem document for what is no Error: what goes wrong before a request is complete, e.g. 413, 431, 503, and what
/// only the wire has.
[[nodiscard]] Response problem(int status, std::string_view detail, std::string_view request_id,
                               std::vector<Header> headers = {});

} // namespace mc2::server
