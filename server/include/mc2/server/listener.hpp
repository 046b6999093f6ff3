#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "mc2/planner/error.hpp"
#include "mc2/server/config.hpp"
#include "mc2/server/service.hpp"

namespace mc2::server {

/// What the access log says of one answer.
struct AccessRecord {
  std::string_view client, method, target, request_id, token_id;
  int status = 0;
  std::size_t body_bytes = 0;
  double took_us = 0;
};

using AccessLog = std::function<void(const AccessRecord&)>;

/// Where a listener says what happens to it; either may be empty.
struct Logs {
  AccessLog access;
  std::function<void(const std::string&)> event; ///< a line for whoever looks after the service
};

/// The wire: HTTP/1.1 by Boost.Beast on a TCP port (with TLS, if there is a certificate) and, if asked, a Unix socket.
/// Nothing of a request reaches the service before all of it has arrived within the limits
/// (docs/adr/0008-beast-on-the-wire.md).
class Listener {
 public:
  /// Binds. Errors: InvalidSpec (address; or one that lets the network in without tokens or TLS), Unsupported (the port
  /// is taken or not permitted, the socket cannot be made).
  [[nodiscard]] static Result<std::unique_ptr<Listener>> open(Service& service, const Config& config, Logs logs);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Takes limits and certificate from `config`, for connections and requests that begin from now on, and tells the
  /// service. Errors: as open and Config::validate; everything stays as it is then. Threads: any, one at a time.
  [[nodiscard]] Result<void> reload(const Config& config);

  /// Bound to; never 0.
  [[nodiscard]] std::uint16_t port() const noexcept;

  /// Answers until stop(); returns when every connection has ended, at the latest Limits::drain_timeout after it.
  void run();

  /// No new connections, idle ones end, requests in flight are answered. Threads: any; may be called again.
  void stop() noexcept;

 private:
  struct Impl;
  explicit Listener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace mc2::server
