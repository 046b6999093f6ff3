#pragma once

#include <memory>
#include <span>
#include <string_view>

namespace mc2::profiler {

/// Decompresses one format piece by piece.
class Decoder {
 public:
  enum class Step : std::uint8_t { GoesOn, MemberEnded, Damaged };

  Decoder() = default;
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Name of the format, for people.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Reads from the front of `from` and writes to the front of `into`. Both shrink to their unused rest.
  [[nodiscard]] virtual Step decode(std::span<const char>& from, std::span<char>& into) = 0;
  /// Begins another member of the same file, as `cat a.gz b.gz` makes them.
  virtual void begin_member() = 0;
};

/// So many first bytes suffice to recognise every format.
inline constexpr std::size_t kMagicBytes = 6;
/// The decoder for gzip, xz or zstd, recognised by the first bytes; null for anything else.
[[nodiscard]] std::unique_ptr<Decoder> decoder_of(std::string_view first_bytes);

} // namespace mc2::profiler
