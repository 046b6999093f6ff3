#include "http/target.hpp"

#include <gtest/gtest.h>

namespace mc2::server::target_test {
namespace {

TEST(Target, IsTakenApartAndDecoded) {
  const auto target = parse_target("/v1/a%20b?x=1&name=caf%C3%A9+au+lait&empty=&bare");
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target.value().path, "/v1/a b");
  const Query& query = target.value().query;
  EXPECT_EQ(query.integer("x", 1, 9).value(), 1);
  EXPECT_EQ(query.text("name"), "café au lait");
  EXPECT_EQ(query.text("empty"), "");
  EXPECT_EQ(query.text("bare"), "");
  EXPECT_FALSE(query.text("missing"));
  EXPECT_FALSE(query.integer("missing", 1, 9).value());
}

TEST(Target, EscapesThatAreNoneAreRefused) {
  for (const char* target : {"/%", "/%4", "/%zz", "/%00", "/a?x=%", "/a?%G0=1", "/a?x=%0"})
    EXPECT_EQ(parse_target(target).error().code, ErrorCode::Malformed) << target;
}

TEST(Target, ParameterThatComesTwiceIsRefused) {
  EXPECT_EQ(parse_target("/a?x=1&x=1").error().field, "x");
  EXPECT_EQ(parse_target("/a?x=1&%78=2").error().field, "x");
}

TEST(Query, NumbersAreWholeTextsInRange) {
  const Query query = Query::parse("a=12x&b=&c=99999999999999999999&d=-7&e=1.5&f=nan&g=1e400&h=0x10").value();
  for (const char* name : {"a", "b", "c", "e", "f", "h"}) EXPECT_EQ(query.integer(name, 0, 9).error().field, name);
  EXPECT_EQ(query.integer("d", -9, 9).value(), -7);
  EXPECT_EQ(query.integer("d", 0, 9).error().message, "is -7; legal: 0 to 9");
  EXPECT_EQ(query.integer("c", 0, 9).error().message, "is 99999999999999999999; legal: 0 to 9");
  EXPECT_EQ(query.integer("e", 0, 9).error().message, "is \"1.5\"; must be a whole number");
  EXPECT_EQ(query.real("e").value(), 1.5);
  for (const char* name : {"a", "b", "f", "g"}) EXPECT_EQ(query.real(name).error().field, name);
}

TEST(Query, FlagsAreTrueOrFalse) {
  const Query query = Query::parse("a=true&b=false&c=1").value();
  EXPECT_TRUE(query.flag("a").value());
  EXPECT_FALSE(query.flag("b").value());
  EXPECT_FALSE(query.flag("missing").value());
  EXPECT_EQ(query.flag("c").error().field, "c");
}

TEST(Query, NamesAParameterThatNobodyAskedFor) {
  const Query query = Query::parse("m=1&mm=2").value();
  EXPECT_EQ(query.integer("m", 1, 9).value(), 1);
  EXPECT_EQ(query.require_all_known().error().field, "mm");
  EXPECT_TRUE(query.text("mm"));
  EXPECT_TRUE(query.require_all_known().ok());
}

} // namespace
} // namespace mc2::server::target_test
