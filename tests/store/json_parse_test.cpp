#include "json_parse.hpp"

#include <gtest/gtest.h>

#include <string>

namespace mc2::store::json_parse_test {
namespace {

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
}

void expect_refused(const std::string& text, const JsonLimits& limits, const std::string& field,
                    const std::string& message) {
  const auto parsed = parse_json(text, limits);
  ASSERT_FALSE(parsed.ok()) << text.substr(0, 80);
  EXPECT_EQ(parsed.error().code, ErrorCode::Malformed);
  EXPECT_EQ(parsed.error().field, field);
  EXPECT_NE(parsed.error().message.find(message), std::string::npos) << parsed.error().text();
}

TEST(ParseJson, DepthOf32IsTheLast) {
  EXPECT_TRUE(parse_json(nested(32)).ok());
  EXPECT_FALSE(parse_json(nested(33)).ok());
}

TEST(ParseJson, AMillionOpenBracketsAreRefusedEarly) {
  const auto parsed = parse_json(std::string(1'000'000, '['));
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.error().message.find("nested deeper than 32"), std::string::npos);
}

TEST(ParseJson, LimitsNameThePlace) {
  expect_refused("{\"a\":{\"b\":[1,2,3]}}", {.max_array_length = 2}, "a.b[2]", "more than 2 elements");
  // Two arrays and two numbers come before the array that holds 3.
  expect_refused("[[1,2],[3]]", {.max_value_count = 5}, "[1][0]", "more than 5 values");
  expect_refused("[1, 2]", {.max_bytes = 5}, "", "6 bytes; legal: at most 5");
  expect_refused("{\"a\":[[{}]]}", {.max_depth = 3}, "a[0][0]", "nested deeper than 3");
}

TEST(ParseJson, RepeatedKeysAreRefusedAtAnyDepth) {
  expect_refused("{\"a\":1,\"a\":1}", {}, "", "key 'a' appears twice");
  expect_refused("[0,{\"x\":{\"a\":1,\"b\":2,\"a\":3}}]", {}, "[1].x", "key 'a' appears twice");
}

TEST(ParseJson, TheSameKeyMayAppearInDifferentObjects) {
  const auto parsed = parse_json("{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().dump(), "{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}}");
}

TEST(ParseJson, NumbersKeepTheirKindAndBits) {
  const auto parsed = parse_json("[9223372036854775807,-9223372036854775808,-0.0,0.1,18446744073709551615]");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().dump(), "[9223372036854775807,-9223372036854775808,-0.0,0.1,18446744073709551615]");
}

} // namespace
} // namespace mc2::store::json_parse_test
