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

/// What the headers of a request say, as far as it decides whether the request may pass.
struct RequestHead {
  std::string_view client; ///< its address, which several clients may share
  std::string_view method, target;
  std::string_view authorization, origin, host, content_encoding, content_type, fetch_site,
      via; ///< headers; empty: absent
  std::string_view id;
};

/// Whether a request may go on, and with which rights.
struct Admission {
  std::optional<Response> refusal = std::nullopt; ///< 400, 401, 403, 415, 429 or 503; unset: go on
  Access granted = Access::Open;
  std::string token_id = {}; ///< of the token that was shown; empty: no valid token
  Match match = {};          ///< the route, also of a refused request
};

/// What a service needs from outside.
struct Surroundings {
  std::function<std::string()> utc_now;               ///< the time as ISO 8601, for kept documents
  std::function<void(const std::string&)> event = {}; ///< called with a line for the operator; may be empty
  std::stop_token stop = {};                          ///< makes Service::open give up

  /// Passes a line to `event`, if that is set.
  void tell(const std::string& line) const {
    if (event) event(line);
  }
};

/// Answers requests from a store. It does not know about sockets. schemas/openapi.yaml describes every answer.
class Service {
 public:
  /// Opens or creates the store. A replica's store is made a copy of its leader's first.
  /// Errors: as Config::validate and store::Store::open; for a replica, those of the client and as
  /// store::Store::become_replica. Throws SystemError.
  [[nodiscard]] static Result<std::unique_ptr<Service>> open(const Config& config, Surroundings surroundings);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Decides from the headers alone, before a body is read and without reading the store. Threads: safe to share.
  [[nodiscard]] Admission admit(const RequestHead& head) noexcept;

  /// The target of a request for a log: cut off where it has a token.
  [[nodiscard]] static std::string loggable(std::string_view target);

  /// Whether the store has tokens: revoked, expired and damaged ones count.
  [[nodiscard]] bool has_tokens() const noexcept;

  /// Whether this is a replica that sends writes on to its leader.
  [[nodiscard]] bool forwards_writes() const noexcept;

  /// Takes from `config` who has to show a token, and how many refusals an address gets. Threads: any.
  void reload(const Config& config);

  /// Makes the answer. Every failure becomes a problem document (RFC 9457). Threads: safe to share.
  [[nodiscard]] Response answer(const Request& request) noexcept;

  /// The answer, if it is known already; made without waiting. Nothing where answer() has to make it. Threads: safe to
  /// share.
  [[nodiscard]] std::optional<Response> known(const Request& request) noexcept;

  /// Counts an answer that answer() does not count: a refusal of admit(), a refusal of a request that could not be
  /// read, or the last answer to a request that waited.
  void count_elsewhere(std::string_view method, std::string_view target, int status);

  /// Counts connections for /metrics. Threads: safe to share.
  void count_connection(bool is_opened) noexcept;
  /// @param reason  "limit", "address", "timeout" or "tls"
  void count_refused_connection(std::string_view reason) noexcept;

  /// Whether a waiting answer (Watch) that tells up to `revision` has to go on: the store has another revision, or the
  /// service stops. Threads: safe to share.
  [[nodiscard]] bool has_news(std::int64_t revision) const noexcept;

  /// @param wake  called on any thread whenever has_news() may have become true, as long as the returned value lives;
  ///              must neither wait nor throw
  /// @param most  subscribers at a time; null is returned where there are so many already
  [[nodiscard]] std::shared_ptr<void> subscribe(std::function<void()> wake, int most);

  /// Makes /readyz answer 503, so that load balancers send no new requests here. Ends every wait for changes, and stops
  /// asking a replica's leader.
  void start_draining() noexcept;

 private:
  struct Impl;
  explicit Service(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A problem document for a failure that is no Error, e.g. 413, 431 or 503: what goes wrong before a request is
/// complete, and what only the wire knows.
[[nodiscard]] Response problem(int status, std::string_view detail, std::string_view request_id,
                               std::vector<Header> headers = {});

/// The title of a problem with this status, as RFC 9110 names the status; empty for statuses that are no problem.
[[nodiscard]] std::string_view phrase_of(int status) noexcept;

} // namespace mc2::server
