#pragma once

#include <boost/asio/ssl/context.hpp>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "mc2/planner/error.hpp"

namespace mc2::server {

namespace net = boost::asio;

/// A certificate as PEM files: the chain, which begins with the server's own certificate, and the key without a
/// passphrase.
struct TlsFiles {
  std::filesystem::path certificate, key;
};

/// The certificate of new connections; TLS 1.2 and later. Threads: safe to share.
class Tls {
 public:
  /// Errors: InvalidSpec naming the file, which is missing, unreadable, not PEM, encrypted, or the key of another
  /// certificate.
  [[nodiscard]] static Result<std::unique_ptr<Tls>> open(const TlsFiles& files);

  /// The context for a new connection.
  [[nodiscard]] std::shared_ptr<net::ssl::context> context() const;

  /// Uses these files for new connections; open connections do not change. Errors: as open; nothing changes then.
  [[nodiscard]] Result<void> load(const TlsFiles& files);

  /// Loads the files again if they have changed since the last look. Returns whether they had. Errors: as load, once
  /// for each change.
  [[nodiscard]] Result<bool> follow_files();

 private:
  Tls() = default;

  mutable std::mutex mutex_; ///< protects all members below
  TlsFiles files_;
  std::string state_;                          ///< of the files at the last look
  std::shared_ptr<net::ssl::context> context_; ///< shared with connections that are being accepted
};

} // namespace mc2::server
