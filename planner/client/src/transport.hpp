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
  std::string target; ///< path and query, encoded, from "/v1" on
  std::string body;   ///< empty: none
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {}; ///< others
};

struct HttpAnswer {
  int status = 0;
  std::string content_type;
  std::string body;
  std::string location = {}; ///< header; empty: absent
};

/// The wire to one service. Threads: safe to share.
class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Errors: kUnavailable, its message saying what happened; with a field where it is not the service's doing.
  [[nodiscard]] virtual Result<HttpAnswer> call(const HttpRequest& request, std::chrono::milliseconds deadline,
                                                const std::stop_token& stop) const = 0;
};

/// What every request names as its User-Agent. Services take those who name no mc2 for the clients before 0.2, which
/// read less.
inline constexpr const char* kUserAgent = "mc2/" MC2_VERSION;

/// What a call that was not answered in time says.
[[nodiscard]] Error too_late(std::chrono::milliseconds deadline);

/// By cpprestsdk, for http and https. The only code that includes it. Options are valid. Its threads are the process's
/// that opens the first one: calls of that one's children are refused.
[[nodiscard]] std::unique_ptr<Transport> network_transport(const Options& options);
/// By connections to a Unix socket that are kept for the next call. Options are valid.
[[nodiscard]] std::unique_ptr<Transport> socket_transport(const Options& options);

/// Why a URL of http or https names no service, or nothing.
[[nodiscard]] std::string network_url_fault(const std::string& url);
/// Likewise of one that begins with kSocketScheme.
[[nodiscard]] std::string socket_url_fault(const std::string& url);

/// The longest that a service may be silent because nothing has changed (Client::changes_since).
inline constexpr std::chrono::seconds kLongestPatience{60};

inline constexpr std::string_view kSocketScheme = "unix:";

} // namespace mc2::client
