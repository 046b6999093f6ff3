#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "mc2/planner/error.hpp"

namespace mc2::server {

/// What one client may take. Every figure bounds something that a client chooses.
struct Limits {
  std::size_t header_bytes = 8 << 10;
  std::size_t body_bytes = 1 << 20;
  std::size_t upload_bytes = 64 << 20;             ///< bodies of what is kept: models, samples, logs
  int upload_count = 4;                            ///< bodies above body_bytes at a time; more are answered 503
  std::chrono::milliseconds header_timeout{5'000}; ///< from the first byte, or from accepting, to the last header
  std::chrono::milliseconds body_timeout{10'000};  ///< to read a body, and to write an answer
  std::chrono::milliseconds idle_timeout{30'000};  ///< between requests of one connection
  std::chrono::milliseconds drain_timeout{5'000};  ///< for requests in flight when the service stops
  int connection_count = 1024;                     ///< more are answered 503
  int connection_count_of_address = 512;           ///< likewise, of one client address; 0: no limit
  int watcher_count = 256;                         ///< who wait for changes at a time; more are answered 503
  std::size_t least_free_bytes = 16 << 20;         ///< of the store's disk; with less, /readyz says no
  double requests_per_s = 0;                       ///< of one client address; 0: no limit
  double refused_tokens_per_s = 10;                ///< answered 401; more of one client address are 429. 0: no limit
};

/// How long documents are kept; unset: for ever. Plans stay until another takes their place.
struct Retention {
  std::optional<std::chrono::seconds> samples, models, measurements;
};

/// The service whose replica this one is.
struct Leader {
  std::string url;                ///< as client::Options::url; empty: this one is no replica
  std::string token;              ///< for the leader; empty: none is sent
  std::filesystem::path ca_file;  ///< trusted certificates (PEM) for https; empty: those of the system
  bool is_sent_documents = false; ///< sends on what clients would have kept; else refuses it
};

/// How a service runs. docs/service.md has every setting with its names in file, environment and on the command line.
struct Config {
  std::string address = "127.0.0.1"; ///< loopback, because there are no tokens until some are made
  std::uint16_t port = 8471;         ///< 0: any free one
  std::filesystem::path unix_socket; ///< listened on as well, unless empty
  std::filesystem::path store;
  int thread_count = 0; ///< that answer requests; 0: as many as cores
  std::size_t cached_answer_count = 65'536;
  std::size_t cached_answer_bytes = 256 << 20;    ///< of them, their compressed copies and their questions together
  bool has_access_log = true;                     ///< JSON lines on standard error
  std::filesystem::path tls_certificate, tls_key; ///< PEM; both or neither
  std::optional<bool> requires_tokens;            ///< unset: as soon as the store has one
  bool has_public_read = false;                   ///< what only asks needs no token
  bool allows_insecure_network = false;           ///< others than loopback, though without tokens or without TLS
  Limits limits;
  Retention retention;
  Leader leader;
  std::chrono::seconds history_interval{300}; ///< between points of the store's history; 0: none is kept

  [[nodiscard]] bool has_tls() const noexcept { return !tls_certificate.empty(); }
  [[nodiscard]] bool is_replica() const noexcept { return !leader.url.empty(); }

  /// Errors: InvalidSpec naming the setting.
  [[nodiscard]] Result<void> validate() const;
};

} // namespace mc2::server
