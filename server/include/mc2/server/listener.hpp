#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "mc2/planner/error.hpp"
#include "mc2/server/config.hpp"
#include "mc2/server/service.hpp"

namespace mc2::server {

/// What the access log holds about one answer.
struct AccessRecord {
  std::string_view client, method, target, request_id, token_id;
  int status = 0;
  std::size_t body_bytes = 0;
  double took_us = 0;
};

using AccessLog = std::function<void(const AccessRecord&)>;

/// Where a listener reports what happens; either function may be empty.
struct Logs {
  AccessLog access;
  std::function<void(const std::string&)> event; ///< called with a line for the operator of the service
};

/// Opens the service that a listener serves.
using OpenService = std::function<Result<std::unique_ptr<Service>>()>;

/// The wire: HTTP/1.1 by Boost.Beast on a TCP port (with TLS, if there is a certificate) and, if asked, a Unix socket.
/// The service sees a request only after all of it has arrived within the limits (docs/adr/0008-beast-on-the-wire.md).
class Listener {
 public:
  /// Binds the port and the socket, opens the service, which may make a store, and then lets clients connect. Errors:
  /// InvalidSpec (the address is none, or admits the network without tokens and TLS; the certificate; the socket's
  /// path), Unsupported (the port is taken or not permitted; the socket is in use or cannot be made); those of
  /// `open_service`.
  [[nodiscard]] static Result<std::unique_ptr<Listener>> open(const OpenService& open_service, const Config& config,
                                                              Logs logs);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Takes the limits, the rate limit and (where TLS was on from the start) the certificate from `config`, for
  /// connections and requests that begin from now on, and passes `config` to Service::reload. Errors: as open and
  /// Config::validate; on an error nothing changes. Threads: any, one at a time.
  [[nodiscard]] Result<void> reload(const Config& config);

  /// The port that is bound; never 0.
  [[nodiscard]] std::uint16_t port() const noexcept;

  /// Serves until stop(). Returns when every connection has ended, at the latest Limits::drain_timeout after stop(),
  /// and the work that was in progress has ended.
  void run();

  /// Takes no new connections, ends idle ones and lets requests in flight be answered; returns at once. Threads: any;
  /// may be called again.
  void stop() noexcept;

 private:
  struct Impl;
  explicit Listener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace mc2::server
