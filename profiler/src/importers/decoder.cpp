#include "decoder.hpp"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <new>

namespace mc2::profiler {
namespace {

constexpr std::string_view kGzipMagic = "\x1f\x8b",
                           kXzMagic(
                               "\xFD"
                               "7zXZ\0",
                               6),
                           kZstdMagic = "\x28\xB5\x2F\xFD";

/// Whether a frame of zstd begins here that decoders skip. pzstd writes one before each frame of data.
bool is_skippable_frame(std::string_view bytes) {
  constexpr std::string_view kBehindFirst = "\x2A\x4D\x18";
  return bytes.size() > kBehindFirst.size() && (static_cast<unsigned char>(bytes[0]) & 0xF0U) == 0x50U &&
         bytes.substr(1).starts_with(kBehindFirst);
}

class GzipDecoder : public Decoder {
 public:
  GzipDecoder() {
    constexpr int kGzipWindow = 15 + 16; // adding 16 to the window bits makes zlib expect a gzip header
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }

  [[nodiscard]] std::string_view name() const noexcept override { return "gzip"; }
  [[nodiscard]] Step decode(std::span<const char>& from, std::span<char>& into) override {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data())); // zlib only reads it
    stream_.avail_in = static_cast<uInt>(from.size());
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(into.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    from = from.last(stream_.avail_in);
    into = into.last(stream_.avail_out);
    if (code == Z_STREAM_END) return Step::MemberEnded;
    return code == Z_OK || code == Z_BUF_ERROR ? Step::GoesOn : Step::Damaged;
  }
  void begin_member() override { inflateReset(&stream_); }

 private:
  z_stream stream_{};
};

class XzDecoder : public Decoder {
 public:
  XzDecoder() { begin_member(); }
  ~XzDecoder() override { lzma_end(&stream_); }

  [[nodiscard]] std::string_view name() const noexcept override { return "xz"; }
  [[nodiscard]] Step decode(std::span<const char>& from, std::span<char>& into) override {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(from.data());
    stream_.avail_in = from.size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(into.data());
    stream_.avail_out = into.size();
    const lzma_ret code = lzma_code(&stream_, LZMA_RUN);
    from = from.last(stream_.avail_in);
    into = into.last(stream_.avail_out);
    if (code == LZMA_STREAM_END) return Step::MemberEnded;
    return code == LZMA_OK || code == LZMA_BUF_ERROR ? Step::GoesOn : Step::Damaged;
  }
  void begin_member() override {
    constexpr std::uint64_t kMostMemory = std::uint64_t{96} << 20U; // xz -9 needs 65 MiB
    if (lzma_stream_decoder(&stream_, kMostMemory, 0) != LZMA_OK) throw std::bad_alloc();
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class ZstdDecoder : public Decoder {
 public:
  ZstdDecoder() : stream_(ZSTD_createDStream(), &ZSTD_freeDStream) {
    constexpr int kMostWindowBits = 26; // 64 MiB; zstd -19 needs 8 MiB
    if (!stream_) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMostWindowBits);
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "zstd"; }
  [[nodiscard]] Step decode(std::span<const char>& from, std::span<char>& into) override {
    ZSTD_inBuffer in{from.data(), from.size(), 0};
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    const std::size_t code = ZSTD_decompressStream(stream_.get(), &out, &in);
    from = from.subspan(in.pos);
    into = into.subspan(out.pos);
    if (ZSTD_isError(code) != 0) return Step::Damaged;
    return code == 0 ? Step::MemberEnded : Step::GoesOn;
  }
  void begin_member() override { ZSTD_DCtx_reset(stream_.get(), ZSTD_reset_session_only); }

 private:
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream_;
};

} // namespace

std::unique_ptr<Decoder> decoder_of(std::string_view first_bytes) {
  if (first_bytes.starts_with(kGzipMagic)) return std::make_unique<GzipDecoder>();
  if (first_bytes.starts_with(kXzMagic)) return std::make_unique<XzDecoder>();
  if (first_bytes.starts_with(kZstdMagic) || is_skippable_frame(first_bytes)) return std::make_unique<ZstdDecoder>();
  return nullptr;
}

} // namespace mc2::profiler
