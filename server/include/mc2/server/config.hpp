#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "mc2/planner/error.hpp"

namespace mc2::server {

/// The legal values of a setting that is a whole number, both included.
struct WholeRange {
  std::int64_t low = 0, high = 0;
};
inline constexpr WholeRange kLegalThreads{0, 256};            ///< 0: as many as cores
inline constexpr WholeRange kLegalHeaderBytes{256, 64 << 10}; ///< Boost.Beast throws for a longer header
inline constexpr WholeRange kLegalBodyBytes{1024, 1 << 30};   ///< of uploads, too
inline constexpr WholeRange kLegalUploads{1, 1024}, kLegalConnections{1, 65'536}, kLegalConnectionsOfAddress{0, 65'536},
    kLegalWatchers{0, 65'536};
inline constexpr double kMostPerSecond = 1e9; ///< of requests and of refusals

/// Bounds on what clients may take. Every figure bounds something that a client chooses.
struct Limits {
  std::size_t header_bytes = 8 << 10;
  std::size_t body_bytes = 1 << 20;
  std::size_t upload_bytes = 64 << 20;             ///< of a body on routes that keep models, samples or logs
  int upload_count = 4;                            ///< bodies above body_bytes at a time; a further one gets 503
  std::chrono::milliseconds header_timeout{5'000}; ///< each for the TLS handshake, the first byte, the headers
  std::chrono::milliseconds body_timeout{10'000};  ///< to read each 8 MiB of a body, to write each 256 KiB of an answer
  std::chrono::milliseconds idle_timeout{30'000};  ///< between two requests of one connection
  std::chrono::milliseconds drain_timeout{5'000};  ///< for requests in flight when the service stops
  int connection_count = 1024;           ///< open at a time; a further one gets 503, or is closed if 64 others get 503
  int connection_count_of_address = 512; ///< the same for each client address; 0: no limit
  int watcher_count = 256;               ///< clients that wait for changes at a time; a further one gets 503
  std::size_t least_free_bytes = 16 << 20; ///< free space of the store's disk; with less, /readyz answers 503
  double requests_per_s = 0;               ///< for each client address; beyond it 429; 0: no limit
  double refused_tokens_per_s = 10;        ///< answers 401 for each client address; beyond it 429; 0: no limit
};

/// How long documents are kept; unset: for ever. A plan stays until another plan takes its place.
struct Retention {
  std::optional<std::chrono::seconds> samples, models, measurements;
};

/// The service that this one is a replica of.
struct Leader {
  std::string url;                ///< as client::Options::url; empty: this service is no replica
  std::string token;              ///< shown to the leader; empty: none is sent
  std::filesystem::path ca_file;  ///< trusted certificates (PEM) for https; empty: the system's
  bool is_sent_documents = false; ///< forwards clients' changes to the leader; else answers 405
};

/// How a service runs. docs/service.md has every setting with its names in file, environment and on the command line.
struct Config {
  std::string address = "127.0.0.1"; ///< loopback: a new store has no tokens, so anybody may ask
  std::uint16_t port = 8471;         ///< 0: any free port
  std::filesystem::path unix_socket; ///< a socket to listen on in addition; empty: none
  std::filesystem::path store;
  int thread_count = 0; ///< threads that serve connections; 0: one for each core
  std::size_t cached_answer_count = 65'536;
  std::size_t cached_answer_bytes = 256 << 20;    ///< of answers (1/2), compressed copies (1/4) and questions (1/4)
  bool has_access_log = true;                     ///< writes JSON lines to standard error
  std::filesystem::path tls_certificate, tls_key; ///< PEM; both or neither
  /// Unset: as soon as the store has a token, and for all but reading where lends_token().
  std::optional<bool> requires_tokens;
  bool has_public_read = false;         ///< reading (Access::Read) needs no token
  bool allows_insecure_network = false; ///< may leave loopback without tokens or without TLS
  Limits limits;
  Retention retention;
  Leader leader;
  std::chrono::seconds history_interval{300}; ///< between two points of the store's history; 0: no history

  [[nodiscard]] bool has_tls() const noexcept { return !tls_certificate.empty(); }
  [[nodiscard]] bool is_replica() const noexcept { return !leader.url.empty(); }
  /// Whether clients' changes reach the leader with this service's token, and so with rights that are not theirs.
  [[nodiscard]] bool lends_token() const noexcept { return leader.is_sent_documents && !leader.token.empty(); }

  /// Errors: InvalidSpec naming the first setting that is not legal.
  [[nodiscard]] Result<void> validate() const;
};

} // namespace mc2::server
