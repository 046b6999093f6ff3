#include "log_reader.hpp"

#include <algorithm>
#include <cstring>

namespace mc2::profiler {
namespace {

constexpr std::size_t kFirstChunkBytes = 4 << 10; ///< small, because many logs are short
constexpr std::size_t kMaxChunkBytes = 64 << 10;
constexpr unsigned kReplacement = 0xFFFD;

void append_utf8(std::string& text, unsigned code) {
  const auto put = [&](unsigned byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) return put(0xC0 | (code >> 6)), put(0x80 | (code & 0x3F));
  if (code < 0x10000) return put(0xE0 | (code >> 12)), put(0x80 | ((code >> 6) & 0x3F)), put(0x80 | (code & 0x3F));
  put(0xF0 | (code >> 18)), put(0x80 | ((code >> 12) & 0x3F)), put(0x80 | ((code >> 6) & 0x3F)),
      put(0x80 | (code & 0x3F));
}

} // namespace

std::size_t remove_colours(char* text, std::size_t size) {
  constexpr char kEscape = '\x1b';
  char* into = static_cast<char*>(std::memchr(text, kEscape, size));
  if (!into) return size;
  const char* const end = text + size;
  for (const char* from = into; from < end;) {
    if (*from != kEscape || from + 1 == end || from[1] != '[') {
      *into++ = *from++;
      continue;
    }
    from = std::find_if(from + 2, end, [](char c) { return c >= '@' && c <= '~'; });
    if (from < end) ++from;
  }
  return static_cast<std::size_t>(into - text);
}

LogReader::LogReader(ByteSource& source)
    : source_(source), inflater_(source), buffer_(2 * kFirstChunkBytes), chunk_bytes_(kFirstChunkBytes) {}

void LogReader::find_encoding() {
  raw_.resize(chunk_bytes_);
  std::size_t size = 0;
  while (size < 4) {
    const std::size_t got = inflater_.read(std::span(raw_).subspan(size));
    if (got == 0) break;
    size += got;
  }
  std::string_view bytes(raw_.data(), size);
  encoding_ = Encoding::Utf8;
  if (bytes.starts_with("\xEF\xBB\xBF"))
    bytes.remove_prefix(3);
  else if (bytes.starts_with("\xFF\xFE"))
    encoding_ = Encoding::Utf16Little, bytes.remove_prefix(2);
  else if (bytes.starts_with("\xFE\xFF"))
    encoding_ = Encoding::Utf16Big, bytes.remove_prefix(2);
  // No byte order mark: Latin letters in UTF-16 have every other byte 0, which text in UTF-8 never has.
  else if (bytes.size() >= 4 && bytes[1] == '\0' && bytes[3] == '\0' && bytes[0] != '\0')
    encoding_ = Encoding::Utf16Little;
  else if (bytes.size() >= 4 && bytes[0] == '\0' && bytes[2] == '\0' && bytes[1] != '\0')
    encoding_ = Encoding::Utf16Big;
  if (encoding_ == Encoding::Utf8) {
    std::copy(bytes.begin(), bytes.end(), buffer_.begin());
    end_ = bytes.size();
  } else {
    decode_utf16(bytes);
  }
}

void LogReader::append_code_unit(unsigned unit) {
  const bool is_low = unit >= 0xDC00 && unit < 0xE000;
  if (high_surrogate_ != 0) {
    append_utf8(decoded_, is_low ? 0x10000 + ((high_surrogate_ - 0xD800) << 10) + (unit - 0xDC00) : kReplacement);
    high_surrogate_ = 0;
    if (is_low) return;
  }
  if (unit >= 0xD800 && unit < 0xDC00)
    high_surrogate_ = unit;
  else
    append_utf8(decoded_, is_low ? kReplacement : unit);
}

void LogReader::decode_utf16(std::string_view bytes) {
  decoded_.clear();
  const std::string joined = odd_byte_ + std::string(bytes);
  const std::size_t high = encoding_ == Encoding::Utf16Big ? 0 : 1;
  for (std::size_t i = 0; i + 1 < joined.size(); i += 2)
    append_code_unit(static_cast<unsigned>(static_cast<unsigned char>(joined[i + high])) << 8 |
                     static_cast<unsigned char>(joined[i + 1 - high]));
  odd_byte_ = joined.size() % 2 == 0 ? "" : joined.substr(joined.size() - 1);
  std::copy(decoded_.begin(), decoded_.end(), buffer_.begin() + static_cast<std::ptrdiff_t>(end_));
  end_ += decoded_.size();
}

/// Appends a chunk to the text that is not consumed yet; false when there is no more.
bool LogReader::fill() {
  if (encoding_ == Encoding::Unknown) {
    find_encoding();
    return end_ > begin_;
  }
  if (is_at_end_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t before = end_;
  // Decoding may make a chunk longer by half. The buffer grows with the longest line, up to kMaxLogLineBytes plus two
  // chunks.
  chunk_bytes_ = std::min(2 * chunk_bytes_, kMaxChunkBytes);
  if (buffer_.size() - end_ < 2 * chunk_bytes_) buffer_.resize(end_ + 2 * chunk_bytes_);
  if (encoding_ != Encoding::Utf8) raw_.resize(chunk_bytes_);
  if (encoding_ == Encoding::Utf8) {
    const std::size_t got = inflater_.read(std::span(buffer_).subspan(end_, chunk_bytes_));
    end_ += got;
    is_at_end_ = got == 0;
  } else {
    const std::size_t got = inflater_.read(std::span(raw_).first(chunk_bytes_ / 2));
    is_at_end_ = got == 0;
    decode_utf16({raw_.data(), got});
  }
  return end_ > before || !is_at_end_;
}

std::string_view LogReader::head() {
  while (end_ - begin_ < kHeadBytes && fill()) {
  }
  return {buffer_.data() + begin_, std::min(end_ - begin_, kHeadBytes)};
}

bool LogReader::is_database() { return head().starts_with(kSqliteHeader); }

bool LogReader::next(Line& line) {
  std::size_t searched = 0;
  while (true) {
    const char* from = buffer_.data() + begin_;
    const auto* found = static_cast<const char*>(std::memchr(from + searched, '\n', end_ - begin_ - searched));
    if (found || (end_ - begin_ <= kMaxLogLineBytes && !fill())) {
      from = buffer_.data() + begin_;
      if (!found && begin_ == end_) return false;
      const std::size_t size = found ? static_cast<std::size_t>(found - from) : end_ - begin_;
      line.text = {from, remove_colours(buffer_.data() + begin_, size)};
      line.is_terminated = found != nullptr;
      line.number = ++line_number_;
      begin_ += size + (found ? 1 : 0);
      if (line.text.ends_with('\r')) line.text.remove_suffix(1);
      return true;
    }
    searched = 0;
    if (end_ - begin_ <= kMaxLogLineBytes) continue;
    fault_ = "line " + std::to_string(line_number_ + 1) + " is longer than 1 MiB";
    begin_ = end_;
    is_at_end_ = true;
    return false;
  }
}

bool LogReader::next_piece(std::string_view& piece) {
  while (begin_ == end_)
    if (!fill()) return false;
  piece = {buffer_.data() + begin_, end_ - begin_};
  begin_ = end_;
  return true;
}

Result<std::string> LogReader::rest(std::size_t max_bytes) {
  std::string text;
  do {
    text.append(buffer_.data() + begin_, end_ - begin_);
    begin_ = end_;
    if (text.size() > max_bytes)
      return Error{ErrorCode::Malformed, "",
                   "is larger than " + std::to_string(max_bytes >> 20) + " MiB, the limit for this format"};
  } while (fill());
  return text;
}

std::optional<std::string> row_fault(const Line& line, std::size_t count, std::size_t heading_count,
                                     std::string_view items) {
  if (count != heading_count)
    return "the row has " + std::to_string(count) + " " + std::string(items) + " where the heading has " +
           std::to_string(heading_count);
  if (!line.is_terminated) return "the log ends inside this row: it has no line break";
  return std::nullopt;
}

} // namespace mc2::profiler
