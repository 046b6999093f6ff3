#include "http/content_coding.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace mc2::server::content_coding_test {
namespace {

std::string unzipped(const std::string& bytes) {
  std::string result(1 << 20, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  result.resize(stream.total_out);
  inflateEnd(&stream);
  return result;
}

Response answer(std::size_t bytes) {
  return {.body = std::make_shared<const std::string>(bytes, 'x'), .etag = "\"abc\""};
}

std::string header(const Response& response, std::string_view name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return "-";
}

TEST(ContentCoding, GzipIsTakenWhereTheClientWeighsItNoLessThanPlain) {
  for (const char* accepts :
       {"gzip", "GZIP", "x-gzip", "deflate, gzip", "gzip;q=0.5", "gzip ; q=1.000", "*", "br;q=1.0, *;q=0.1",
        "identity;q=0.5, gzip;q=0.5", "identity;q=0, *;q=0.3", "gzip;foo=bar;q=0.2", ",, gzip ,"})
    EXPECT_TRUE(prefers_gzip(accepts)) << accepts;
  for (const char* accepts :
       {"", "identity", "deflate, br", "gzip;q=0", "gzip;q=0.000", "*;q=0", "gzip;q=0, *", "identity, gzip;q=0.5",
        "gzipped", "gzip;q=x", "gzip;q=", "gzip;q=-1", "gzip;q=2", "gzip;q=nan", ";", ";;,;"})
    EXPECT_FALSE(prefers_gzip(accepts)) << accepts;
}

TEST(ContentCoding, GzipReadsBack) {
  for (const std::string& text :
       {std::string(), std::string("a"), std::string(100'000, 'b'), std::string(5000, '\0') + "end"})
    for (const int level : {1, 6, 9}) EXPECT_EQ(unzipped(gzip(text, level)), text);
}

TEST(ContentCoding, CompressesWhatIsLargeAndTellsTheTagsApart) {
  Compressor compressor(1 << 20);
  Response response = answer(5000);
  compressor.encode(response, "gzip");
  EXPECT_EQ(unzipped(*response.body), std::string(5000, 'x'));
  EXPECT_EQ(response.etag, "\"abc-gzip\"");
  EXPECT_EQ(header(response, "Content-Encoding"), "gzip");
  EXPECT_EQ(header(response, "Vary"), "Accept-Encoding");
}

TEST(ContentCoding, LeavesPlainWhatTheClientWantsPlainAndSaysThatItVaries) {
  Compressor compressor(1 << 20);
  Response response = answer(5000);
  compressor.encode(response, "");
  EXPECT_EQ(response.body->size(), 5000U);
  EXPECT_EQ(response.etag, "\"abc\"");
  EXPECT_EQ(header(response, "Vary"), "Accept-Encoding");
}

TEST(ContentCoding, LeavesAloneWhatIsSmallOrCodedOrNoText) {
  Compressor compressor(1 << 20);
  Response small = answer(1023), coded = answer(5000), picture = answer(5000), none{.body = nullptr, .etag = {}};
  Response events = answer(5000);
  events.content_type = "text/event-stream";
  coded.headers.emplace_back("Content-Encoding", "gzip");
  picture.content_type = "image/png";
  for (Response* response : {&small, &coded, &picture, &events, &none}) {
    compressor.encode(*response, "gzip");
    EXPECT_EQ(header(*response, "Vary"), "-");
  }
}

TEST(ContentCoding, WhatIsKeptIsCompressedOnce) {
  Compressor compressor(700); // room for two such answers
  Response first = answer(5000);
  const auto kept = first.body;
  Response second{.body = kept, .etag = {}};
  compressor.encode(first, "gzip");
  compressor.encode(second, "gzip");
  EXPECT_EQ(first.body, second.body);
  // Other answers push it out, so it is compressed again.
  std::vector<std::shared_ptr<const std::string>> others;
  for (int i = 0; i < 5; ++i) {
    Response other = answer(5000);
    others.push_back(other.body);
    compressor.encode(other, "gzip");
  }
  Response third{.body = kept, .etag = {}};
  compressor.encode(third, "gzip");
  EXPECT_EQ(*third.body, *first.body);
}

} // namespace
} // namespace mc2::server::content_coding_test
