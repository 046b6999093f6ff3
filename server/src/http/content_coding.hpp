#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "mc2/server/message.hpp"

namespace mc2::server {

/// The tag of a document as gzip, which is another representation than the document as it is (RFC 9110 §8.8.3.3).
[[nodiscard]] std::string gzip_tag(std::string tag);

/// Whether a client would rather have gzip than plain bytes (RFC 9110 §12.5.3): weights, "*", "x-gzip" and "identity"
/// count.
[[nodiscard]] bool prefers_gzip(std::string_view accept_encoding) noexcept;

/// RFC 1952. @param level  of zlib: 1 (fast) to 9 (small). Throws std::bad_alloc.
[[nodiscard]] std::string gzip(std::string_view bytes, int level);

/// Compresses answers, those that stay in memory (the cache's, files of the program) once only.
/// Threads: safe to share; two that meet a new answer at once both compress it.
class Compressor {
 public:
  /// @param capacity_bytes  of the compressed answers that are kept
  explicit Compressor(std::size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  /// Compresses the answer where the client prefers that, its bytes are worth it and the answer names no coding yet.
  /// Adds Vary wherever another client could get other bytes, and tells the entity tags of both forms apart.
  void encode(Response& response, std::string_view accept_encoding);

 private:
  using Bytes = std::shared_ptr<const std::string>;
  struct Kept {
    std::weak_ptr<const std::string> plain; ///< the address alone may have become another one's
    Bytes compressed;
  };

  static constexpr std::size_t kEntryBytes = 256; ///< besides the compressed bytes

  [[nodiscard]] Bytes compressed(const Bytes& plain);
  /// What it is kept for may have gone: forgets such copies, or all, where there is no room. mutex_ is held.
  void make_room(std::size_t bytes);

  std::size_t capacity_bytes_;
  std::size_t bytes_ = 0; ///< under mutex_
  std::mutex mutex_;
  std::unordered_map<const std::string*, Kept> kept_; ///< under mutex_
};

} // namespace mc2::server
