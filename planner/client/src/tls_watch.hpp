#pragma once

#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

namespace mc2::client {

/// Sees what happens to the TLS of one client's connections, which cpprestsdk does not tell: when a connection's
/// context was set up, and why a certificate was refused. Threads: safe to share.
class TlsWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// Sets up the context of a new connection, and watches it. Throws what OpenSSL refuses about the file.
  /// @param watch    co-owned by the context, whose connection may outlive the client
  /// @param ca_file  trusted in place of the system's certificates; empty: those of the system
  static void set_up(boost::asio::ssl::context& context, const std::shared_ptr<TlsWatch>& watch,
                     const std::filesystem::path& ca_file);

  /// When the wait for an answer begins, of a call that began at `began`: not before the context of its connection was
  /// set up. cpprestsdk reads all certificates of the system for that, which takes about 20 ms and says nothing about
  /// the service. Waits up to five seconds for the client's first context, as no connection was there before.
  [[nodiscard]] Clock::time_point wait_from(Clock::time_point began, const std::stop_token& stop);

  /// Why the certificate that was shown last was refused, in OpenSSL's words; empty if it was not.
  [[nodiscard]] std::string refusal() const;

 private:
  void note_set_up();
  /// Verifies a certificate as OpenSSL does, and keeps the reason.
  static int verify(X509_STORE_CTX* certificate, void* watch);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Clock::time_point> set_up_at_; ///< of the newest context; under mutex_
  std::string refusal_;                        ///< under mutex_
};

} // namespace mc2::client
