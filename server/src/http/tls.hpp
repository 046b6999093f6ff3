#pragma once

#include <boost/asio/ssl/context.hpp>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "mc2/planner/error.hpp"

namespace mc2::server {

namespace net = boost::asio;

/// The files of a certificate, PEM: the chain, the server's own certificate first, and its key without a passphrase.
struct TlsFiles {
  std::filesystem::path certificate, key;
};

/// What new connections are encrypted with; TLS 1.2 and later. Threads: safe to share.
class Tls {
 public:
  /// Errors: InvalidSpec naming the file that is missing, unreadable, none of PEM, encrypted, or of another key.
  [[nodiscard]] static Result<std::unique_ptr<Tls>> open(const TlsFiles& files);

  /// For one new connection, which keeps what it needs of it.
  [[nodiscard]] std::shared_ptr<net::ssl::context> context() const;

  /// Takes these files from now on; connections that are open stay as they are. Errors: as open; all stays as it is
  /// then.
  [[nodiscard]] Result<void> load(const TlsFiles& files);

  /// Loads the files again when they have changed since they were last looked at. Returns whether they had.
  /// Errors: as load, once for each change.
  [[nodiscard]] Result<bool> follow_files();

 private:
  Tls() = default;

  mutable std::mutex mutex_; ///< of all below
  TlsFiles files_;
  std::string state_;                          ///< of the files when they were last looked at
  std::shared_ptr<net::ssl::context> context_; ///< shared with those who accept a connection just now
};

} // namespace mc2::server
