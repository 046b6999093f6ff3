#include "http/content_coding.hpp"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <optional>

#include "http/header_list.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::server {
namespace {

constexpr std::size_t kLeastBytes = 1024; ///< a smaller answer fits into one packet anyway
constexpr int kLevelOnce = 1, kLevelKept = 6;

bool is_worth_it(const Response& response) {
  const std::string_view type = response.content_type;
  const bool is_text = type.starts_with("text/") || type.find("json") != type.npos || type.find("xml") != type.npos ||
                       type.find("yaml") != type.npos || type.find("javascript") != type.npos;
  const bool goes_on = type.starts_with("text/event-stream"); // later parts follow the same headers
  const bool is_coded =
      std::ranges::any_of(response.headers, [](const Header& header) { return header.first == "Content-Encoding"; });
  return response.body && response.body->size() >= kLeastBytes && is_text && !goes_on && !is_coded;
}

} // namespace

std::string gzip_tag(std::string tag) {
  if (tag.ends_with('"')) tag.insert(tag.size() - 1, "-gzip");
  return tag;
}

bool prefers_gzip(std::string_view accept_encoding) noexcept {
  std::optional<double> gzip, identity, others;
  while (!accept_encoding.empty()) {
    std::string_view parameters = take_part(accept_encoding, ',');
    const std::string_view coding = take_part(parameters, ';');
    auto& found = equals_ignoring_case(coding, "gzip") || equals_ignoring_case(coding, "x-gzip") ? gzip : identity;
    if (equals_ignoring_case(coding, "*"))
      others = weight_of(parameters);
    else if (&found == &gzip || equals_ignoring_case(coding, "identity"))
      found = weight_of(parameters);
  }
  const double of_gzip = gzip.value_or(others.value_or(0));
  // Without a weight of their own, plain bytes are only the fallback.
  return of_gzip > 0 && of_gzip >= identity.value_or(0);
}

std::string gzip(std::string_view bytes, int level) {
  z_stream stream{};
  constexpr int kGzipWindowBits = 15 + 16; // 16 more for a gzip header (zlib.h)
  if (deflateInit2(&stream, level, Z_DEFLATED, kGzipWindowBits, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  std::string result(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  const int status = deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  MC2_CHECK(status == Z_STREAM_END, "deflate() ends within deflateBound()");
  return result;
}

Compressor::Bytes Compressor::compressed(const Bytes& plain) {
  const bool is_kept = plain.use_count() > 1; // by a cache, so it is sent again
  if (!is_kept) return std::make_shared<const std::string>(gzip(*plain, kLevelOnce));
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(plain.get());
    if (found != kept_.end() && found->second.plain.lock() == plain) return found->second.compressed;
  }
  std::string bytes = gzip(*plain, kLevelKept);
  bytes.shrink_to_fit();
  auto result = std::make_shared<const std::string>(std::move(bytes));
  const std::lock_guard lock(mutex_);
  const std::size_t entry_bytes = kEntryBytes + result->size();
  make_room(entry_bytes);
  Kept& kept = kept_[plain.get()];
  if (kept.compressed) bytes_ -= kEntryBytes + kept.compressed->size();
  kept = {plain, result};
  bytes_ += entry_bytes;
  return result;
}

void Compressor::make_room(std::size_t bytes) {
  if (bytes_ + bytes <= capacity_bytes_) return;
  std::erase_if(kept_, [this](const auto& entry) {
    if (!entry.second.plain.expired()) return false;
    bytes_ -= kEntryBytes + entry.second.compressed->size();
    return true;
  });
  if (bytes_ + bytes <= capacity_bytes_ / 2) return; // half: else each new answer would search again
  kept_.clear();
  bytes_ = 0;
}

void Compressor::encode(Response& response, std::string_view accept_encoding) {
  if (!is_worth_it(response)) return;
  response.headers.emplace_back("Vary", "Accept-Encoding");
  if (!prefers_gzip(accept_encoding)) return;
  response.body = compressed(response.body);
  response.headers.emplace_back("Content-Encoding", "gzip");
  if (!response.etag.empty()) response.etag = gzip_tag(std::move(response.etag));
}

} // namespace mc2::server
