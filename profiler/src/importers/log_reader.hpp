#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decoder.hpp"
#include "mc2/profiler/importer.hpp"

namespace mc2::profiler {

/// The first bytes of an SQLite database.
inline constexpr std::string_view kSqliteHeader = "SQLite format 3";

/// A byte stream, decompressed where it is gzip, xz or zstd.
class Inflater {
 public:
  explicit Inflater(ByteSource& source);
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  [[nodiscard]] std::size_t read(std::span<char> into);
  [[nodiscard]] std::int64_t source_bytes() const noexcept { return source_bytes_; }
  [[nodiscard]] bool is_compressed() const noexcept { return decoder_ != nullptr; }
  /// Why the stream ended too early, or was not read to its end; empty when neither.
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

 private:
  void fill();
  [[nodiscard]] std::size_t copy(std::span<char> into);
  /// Skips the zeros with which some tools fill up the end of a file.
  void skip_padding();
  /// Begins the next member of the same format; false where none follows, with a fault where something else does.
  [[nodiscard]] bool begin_next_member();

  ByteSource& source_;
  std::vector<char> input_;
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t source_bytes_ = 0;
  std::unique_ptr<Decoder> decoder_; ///< null where the source is not compressed
  bool is_at_end_ = false;
  bool is_member_open_ = false;
  std::string fault_;
};

/// One line without its line break.
struct Line {
  std::string_view text;
  std::int64_t number = 0;   ///< from 1
  bool is_terminated = true; ///< false for a last line without a line break: it may be truncated
};

/// What is wrong with a row of a table: it has not as many `items` as the heading, or the log ends inside it.
[[nodiscard]] std::optional<std::string> row_fault(const Line& line, std::size_t count, std::size_t heading_count,
                                                   std::string_view items = "numbers");

/// Bytes from which a format is detected. Launchers of thousands of ranks may print a line for each rank before the
/// program prints anything.
inline constexpr std::size_t kHeadBytes = 1 << 20;
inline constexpr std::size_t kMaxLogLineBytes = 1 << 20;

/// Leaves out the codes of colours that terminals show ("\x1b[32m"). @return the new size
std::size_t remove_colours(char* text, std::size_t size);

/// Lines of a log in UTF-8, whatever its encoding, in bounded memory.
class LogReader {
 public:
  explicit LogReader(ByteSource& source);

  /// The beginning of the log, decoded, at most kHeadBytes; nothing is consumed.
  [[nodiscard]] std::string_view head();
  /// False at the end. The text is valid until the next call. A line above kMaxLogLineBytes ends the log with a
  /// fault.
  [[nodiscard]] bool next(Line& line);
  /// Gives the next piece of the text, regardless of lines; false at the end. The piece is valid until the next call.
  [[nodiscard]] bool next_piece(std::string_view& piece);
  /// The rest of the log as one text. Errors: Malformed above `max_bytes`.
  [[nodiscard]] Result<std::string> rest(std::size_t max_bytes);
  /// Whether the log is an SQLite database. Only head() may have been called before.
  [[nodiscard]] bool is_database();

  [[nodiscard]] ByteSource& source() noexcept { return source_; }
  [[nodiscard]] bool is_compressed() const noexcept { return inflater_.is_compressed(); }
  [[nodiscard]] std::int64_t source_bytes() const noexcept { return inflater_.source_bytes(); }
  [[nodiscard]] std::int64_t line_number() const noexcept { return line_number_; }
  /// What is wrong with the stream: a truncated, damaged or continued compressed file, or a line that is too long.
  /// Empty when nothing is.
  [[nodiscard]] std::string fault() const { return fault_.empty() ? inflater_.fault() : fault_; }

 private:
  enum class Encoding : std::uint8_t { Unknown, Utf8, Utf16Little, Utf16Big };

  void find_encoding();
  [[nodiscard]] bool fill();
  void decode_utf16(std::string_view bytes);
  void append_code_unit(unsigned unit);

  ByteSource& source_;
  Inflater inflater_;
  Encoding encoding_ = Encoding::Unknown;
  std::vector<char> buffer_; ///< decoded; [begin_, end_) is not consumed yet
  std::size_t begin_ = 0, end_ = 0;
  std::size_t chunk_bytes_; ///< size of the next read
  std::vector<char> raw_;   ///< UTF-16 before decoding
  std::string odd_byte_;    ///< half a code unit at the end of a chunk
  unsigned high_surrogate_ = 0;
  std::string decoded_;
  std::int64_t line_number_ = 0;
  bool is_at_end_ = false;
  std::string fault_;
};

/// Passes every line to `log.read`.
template <typename Log>
[[nodiscard]] Result<void> read_lines(LogReader& reader, Log log) {
  for (Line line; reader.next(line);) log.read(line);
  return {};
}

} // namespace mc2::profiler
