#include "mc2/planner/text.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mc2::text_test {
namespace {

TEST(Text, NumbersHaveSoManySignificantDigits) {
  EXPECT_EQ(number_text(1234.56), "1235");
  EXPECT_EQ(number_text(0.5), "0.5");
  EXPECT_EQ(number_text(1234.56, 6), "1234.56");
  EXPECT_EQ(number(2.5, "%+.2f rows"), "+2.50 rows");
}

TEST(Text, SharesHaveOneDecimalOrAsManyAsAsked) {
  EXPECT_EQ(percent_text(0.218), "21.8 %");
  EXPECT_EQ(percent_text(-0.004), "-0.4 %");
  EXPECT_EQ(percent_text(-0.0004), "0.0 %");
  EXPECT_EQ(percent_text(0.01234, 2), "1.23 %");
}

TEST(Text, TimesHaveTheUnitThatReadsBest) {
  EXPECT_EQ(time_text(0), "0.0 us");
  EXPECT_EQ(time_text(-0.04), "0.0 us");
  EXPECT_EQ(time_text(-37), "-37.0 us");
  EXPECT_EQ(time_text(803), "803.0 us");
  EXPECT_EQ(time_text(12340), "12.34 ms");
  EXPECT_EQ(time_text(22000), "22 ms");
  EXPECT_EQ(time_text(1.5e6), "1.5 s");
}

TEST(Text, IntervalsHaveTheUnitOfEachEnd) {
  EXPECT_EQ(percent_interval_text(-0.004, 0.218), "-0.4 % to 21.8 %");
  EXPECT_EQ(time_interval_text(803, 1200), "803.0 us to 1.2 ms");
}

TEST(Text, TheLastOfSeveralFollowsAnAnd) {
  const std::vector<std::string> three{"a", "b", "c"};
  const std::span<const std::string> all(three);
  EXPECT_EQ(and_text(all), "a, b and c");
  EXPECT_EQ(and_text(all.first(2)), "a and b");
  EXPECT_EQ(and_text(all.first(1)), "a");
  EXPECT_EQ(and_text({}), "");
}

TEST(Text, PartsStandBetweenSeparators) {
  EXPECT_EQ(split("a, b,,c", ','), (std::vector<std::string_view>{"a", "b", "", "c"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
  EXPECT_EQ(split("a,", ','), (std::vector<std::string_view>{"a", ""}));
}

TEST(Text, ListsAreOfTextsAndOfWholeNumbers) {
  EXPECT_EQ(list_text(std::array<std::string_view, 3>{"", "b", "c"}), ", b, c");
  EXPECT_EQ(list_text(std::array{512, 896, 896}, " + "), "512 + 896 + 896");
  EXPECT_EQ(list_text(std::array<int, 0>{}), "");
}

TEST(Text, BytesHaveTheLargestUnitThatLeavesAWholeOne) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1 KiB");
  EXPECT_EQ(bytes_text(std::int64_t{256} << 20), "256 MiB");
  EXPECT_EQ(bytes_text(std::int64_t{1331} << 20), "1.3 GiB"); // 1331 / 1024 = 1.2998
  EXPECT_EQ(bytes_text(std::int64_t{4096} << 50), "4096 PiB");
}

TEST(Text, MomentsHaveTheirFormAndAreThere) {
  using std::chrono::sys_days;
  const sys_days day = std::chrono::year(2028) / 2 / 29; // a leap year
  EXPECT_EQ(moment_in("2028-02-29"), day);
  EXPECT_EQ(moment_in("2028-02-29T23:59:08Z"), day + std::chrono::seconds(23 * 3600 + 59 * 60 + 8));
  EXPECT_TRUE(moment_in("0000-01-01"));
  for (const char* text : {"", "2027-02-29", "2028-2-29", "2028-02-29T", "2028-02-29T1:00:00Z", "2028-02-29T24:00:00Z",
                           "2028-02-29T23:60:00Z", "2028-02-29T23:59:08", "2028-02-29t23:59:08z", " 028- 2- 9",
                           "-999-01-01", "+028-02-29", "2028-00-01", "2028-13-01", "2028-02-29T23:59:08Z "})
    EXPECT_FALSE(moment_in(text)) << text;
}

TEST(Text, NamesAreFoundOrTheLegalOnesTold) {
  static constexpr std::array<std::string_view, 2> kColours{"red", "blue"};
  EXPECT_EQ(find_named(kColours, "blue", std::identity(), "paint", "colour").value(), &kColours[1]);
  const auto unknown = find_named(kColours, std::string(70, 'x'), std::identity(), "paint", "colour");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::UnknownName);
  EXPECT_EQ(unknown.error().text(), "paint: unknown colour '" + std::string(64, 'x') + "...'; legal: red, blue");
}

TEST(Text, EnumeratorsHaveNames) {
  enum class Side : std::uint8_t { Left, Right, Middle };
  static constexpr Name<Side> kSides[]{{Side::Left, "left"}, {Side::Right, "right"}};
  EXPECT_EQ(name_of<Side>(kSides, Side::Right), "right");
  EXPECT_EQ(name_of<Side>(kSides, Side::Middle), "unknown");
  EXPECT_EQ(parse_name<Side>(kSides, "right", "side").value(), Side::Right);
  EXPECT_EQ(parse_name<Side>(kSides, "up", "side").error().text(), "side: unknown name 'up'; legal: left, right");
}

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
} // namespace mc2::text_test
