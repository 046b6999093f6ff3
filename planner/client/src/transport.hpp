#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "mc2/client/client.hpp"

namespace mc2::client {

struct HttpRequest {
  std::string method = "GET";
  std::string target; ///< path from "/v1" on and query, percent-encoded
  std::string body;   ///< empty: none
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {}; ///< further headers
};

struct HttpAnswer {
  int status = 0;
  std::string content_type;
  std::string body;
  std::string location = {}; ///< the Location header; empty: absent
};

/// Carries requests to one service. Threads: safe to share.
class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// @param deadline  of the whole call; over https without the set-up of TLS on this side
  /// Errors: kUnavailable, and kLate if the answer does not come in time; the message says what happened. The field is
  /// set if the cause is not the service.
  [[nodiscard]] virtual Result<HttpAnswer> call(const HttpRequest& request, std::chrono::milliseconds deadline,
                                                const std::stop_token& stop) const = 0;
};

/// The User-Agent of every request. Clients before 0.2 name only their HTTP library; by that a service knows them, and
/// sends them documents that they can read.
inline constexpr const char* kUserAgent = "mc2/" MC2_VERSION;

/// The code of too_late(), by which a client knows that its deadline is the reason. The client's caller gets
/// kUnavailable.
inline constexpr ErrorCode kLate = ErrorCode::Cancelled;

/// The error of a call that was not answered in time: kLate.
[[nodiscard]] Error too_late(std::chrono::milliseconds deadline);

/// A transport over http and https by cpprestsdk; no other code includes that library. The options must be valid.
/// The threads of cpprestsdk belong to the process that opens the first transport: children that it forks cannot call.
[[nodiscard]] std::unique_ptr<Transport> network_transport(const Options& options);
/// A transport over a Unix socket. Keeps connections open for later calls. The options must be valid.
[[nodiscard]] std::unique_ptr<Transport> socket_transport(const Options& options);

/// Why a URL does not name a service over http or https; empty if it does.
[[nodiscard]] std::string network_url_fault(const std::string& url);
/// Why a URL that begins with kSocketScheme does not name a socket; empty if it does.
[[nodiscard]] std::string socket_url_fault(const std::string& url);

/// The longest time that a service may stay silent because nothing has changed (Client::changes_since).
inline constexpr std::chrono::seconds kLongestPatience{60};

inline constexpr std::string_view kSocketScheme = "unix:";

} // namespace mc2::client
