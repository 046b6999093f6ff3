#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "mc2/client/client.hpp"

namespace mc2::client {

struct HttpRequest {
  std::string method = "GET";
  std::string target; ///< path and query, encoded, from "/v1" on
  std::string body;   ///< JSON; empty: none
};

struct HttpAnswer {
  int status = 0;
  std::string content_type;
  std::string body;
};

/// The wire. The only code that includes cpprestsdk.
class Transport {
 public:
  /// Options are valid.
  explicit Transport(const Options& options);

  /// Errors: kUnavailable, its message saying what happened.
  [[nodiscard]] Result<HttpAnswer> call(const HttpRequest& request, std::chrono::milliseconds deadline,
                                        const std::stop_token& stop = {}) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_; ///< shared with calls that were given up and still end in the background
};

/// Why a URL names no service, or nothing.
[[nodiscard]] std::string url_fault(const std::string& url);

} // namespace mc2::client
