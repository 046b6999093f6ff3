#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "mc2/server/message.hpp"

namespace mc2::server {

/// The entity tag of a document in gzip, which is a representation of its own (RFC 9110 §8.8.3.3).
[[nodiscard]] std::string gzip_tag(std::string tag);

/// Whether a client prefers gzip to plain bytes (RFC 9110 §12.5.3). Reads weights, "*", "x-gzip" and "identity".
[[nodiscard]] bool prefers_gzip(std::string_view accept_encoding) noexcept;

/// Compresses bytes as RFC 1952 says. Throws std::bad_alloc.
/// @param level  of zlib: 1 (fast) to 9 (small)
[[nodiscard]] std::string gzip(std::string_view bytes, int level);

/// Compresses answers. Answers that stay in memory (those of the cache, files of the program) are compressed only once.
/// Threads: safe to share; two threads that get a new answer at once both compress it.
class Compressor {
 public:
  /// @param capacity_bytes  for the compressed answers that are kept
  explicit Compressor(std::size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  /// Compresses an answer if the client prefers that, the bytes are worth it and the answer has no Content-Encoding
  /// yet. Adds Vary wherever another client may get other bytes. A compressed answer gets an entity tag of its own.
  void encode(Response& response, std::string_view accept_encoding);

 private:
  using Bytes = std::shared_ptr<const std::string>;
  struct Kept {
    std::weak_ptr<const std::string> plain; ///< tells whether the address is still this answer's
    Bytes compressed;
  };

  static constexpr std::size_t kEntryBytes = 256; ///< of an entry, in addition to the compressed bytes

  [[nodiscard]] Bytes compressed(const Bytes& plain);
  /// Makes room for so many bytes: forgets the copies whose answers are gone, and all copies if that is not enough. The
  /// caller holds mutex_.
  void make_room(std::size_t bytes);

  std::size_t capacity_bytes_;
  std::size_t bytes_ = 0; ///< under mutex_
  std::mutex mutex_;
  std::unordered_map<const std::string*, Kept> kept_; ///< under mutex_
};

} // namespace mc2::server
