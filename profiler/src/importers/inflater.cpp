#include <algorithm>

#include "log_reader.hpp"

namespace mc2::profiler {
namespace {

constexpr std::size_t kFirstInputBytes = 4 << 10, kInputBytes = 64 << 10;
constexpr int kGzipWindow = 15 + 16; // zlib: 16 more than the window asks for a gzip header

bool is_gzip(std::span<const char> bytes) {
  return bytes.size() >= 2 && static_cast<unsigned char>(bytes[0]) == 0x1f &&
         static_cast<unsigned char>(bytes[1]) == 0x8b;
}

} // namespace

Inflater::Inflater(ByteSource& source) : source_(source), input_(kFirstInputBytes) {
  while (!is_at_end_ && end_ < 2) fill();
  is_compressed_ = is_gzip({input_.data(), end_});
  if (is_compressed_) is_member_open_ = inflateInit2(&stream_, kGzipWindow) == Z_OK;
}

Inflater::~Inflater() {
  if (is_compressed_) inflateEnd(&stream_);
}

void Inflater::fill() {
  if (begin_ == end_) begin_ = end_ = 0;
  if (source_bytes_ > 0) input_.resize(kInputBytes);
  const std::size_t got = source_.read(std::span(input_).subspan(end_));
  end_ += got;
  source_bytes_ += static_cast<std::int64_t>(got);
  is_at_end_ = got == 0;
}

std::size_t Inflater::copy(std::span<char> into) {
  if (begin_ == end_ && !is_at_end_) {
    const std::size_t got = source_.read(into); // nothing left over: no copy
    source_bytes_ += static_cast<std::int64_t>(got);
    is_at_end_ = got == 0;
    return got;
  }
  const std::size_t size = std::min(into.size(), end_ - begin_);
  std::copy_n(input_.data() + begin_, size, into.data());
  begin_ += size;
  return size;
}

std::size_t Inflater::read(std::span<char> into) {
  if (!is_compressed_) return copy(into);
  stream_.next_out = reinterpret_cast<Bytef*>(into.data());
  stream_.avail_out = static_cast<uInt>(into.size());
  while (stream_.avail_out == into.size() && fault_.empty()) {
    if (begin_ == end_ && !is_at_end_) fill();
    if (begin_ == end_) {
      if (is_member_open_) fault_ = "the gzip file is cut: its end is missing";
      break;
    }
    if (!is_member_open_) { // another member follows, as `cat a.gz b.gz` makes them
      if (!is_gzip({input_.data() + begin_, end_ - begin_})) break;
      is_member_open_ = inflateReset(&stream_) == Z_OK;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data() + begin_);
    stream_.avail_in = static_cast<uInt>(end_ - begin_);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    begin_ = end_ - stream_.avail_in;
    if (code == Z_STREAM_END) is_member_open_ = false;
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) fault_ = "the gzip file is damaged";
  }
  return into.size() - stream_.avail_out;
}

} // namespace mc2::profiler
