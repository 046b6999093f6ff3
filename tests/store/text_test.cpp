#include "mc2/store/text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace mc2::store::text_test {
namespace {

TEST(OneLine, ControlCharactersBecomeSpaces) { EXPECT_EQ(one_line("a\nb\x1b[2Jc\x7f"), "a b [2Jc "); }

TEST(OneLine, C1ControlCharactersBecomeSpaces) {
  // U+009B is CSI, which terminals take for ESC [; U+00A0 and U+00E9 (C3 A9) are text.
  EXPECT_EQ(one_line("a\xC2\x9B"
                     "2J\xC2\x80\xC2\xA0\xC3\xA9"),
            "a 2J \xC2\xA0\xC3\xA9");
}

TEST(OneLine, SeparatorsOfLinesBecomeSpaces) {
  EXPECT_EQ(one_line("a\u2028key: 1\u2029\u2027"), "a key: 1 \u2027");
  EXPECT_TRUE(has_control("a\u2028"));
  EXPECT_FALSE(has_control("a\u2027\u00e9"));
}

TEST(OneLine, CutsBetweenCharacters) {
  EXPECT_EQ(one_line("ab\xC3\xA9"
                     "c",
                     3),
            "ab...");
  EXPECT_EQ(one_line("ab\xC3\xA9"
                     "c",
                     4),
            "ab\xC3\xA9...");
}

TEST(OneLine, HalfACharacterAtTheEndStays) { EXPECT_EQ(one_line("a\xC2"), "a\xC2"); }

} // namespace
} // namespace mc2::store::text_test
