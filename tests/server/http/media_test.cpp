#include "http/media.hpp"

#include <gtest/gtest.h>

#include <array>

namespace mc2::server::media_test {
namespace {

constexpr std::array kForms{Form{"json", "application/json"}, Form{"svg", "image/svg+xml"}, Form{"text", "text/plain"}};

std::string_view chosen(std::string_view accept) {
  const Form* form = choose_form(accept, kForms);
  return form == nullptr ? "none" : form->name;
}

TEST(Media, FirstFormIsForThoseWhoDoNotChoose) {
  EXPECT_EQ(chosen(""), "json");
  EXPECT_EQ(chosen("*/*"), "json");
  EXPECT_EQ(chosen("text/html, */*;q=0.8"), "json") << "as browsers send it";
}

TEST(Media, HighestWeightIsChosen) {
  EXPECT_EQ(chosen("image/svg+xml"), "svg");
  EXPECT_EQ(chosen("text/*"), "text");
  EXPECT_EQ(chosen("Image/SVG+XML, application/JSON; Q=0.5"), "svg") << "letters of either case";
  EXPECT_EQ(chosen("IMAGE/*"), "svg");
  EXPECT_EQ(chosen("application/json;q=0.5, image/svg+xml;q=0.9"), "svg");
  EXPECT_EQ(chosen(" text/plain ; q=0.9 ,image/svg+xml;level=1;q=0.1"), "text");
}

TEST(Media, ClosestRangeCounts) {
  // json is named with weight 0 although */* would take it.
  EXPECT_EQ(chosen("application/json;q=0, */*;q=0.1"), "svg");
  EXPECT_EQ(chosen("image/*;q=0.2, */*;q=0.1, image/svg+xml;q=0.05"), "json");
}

TEST(Media, NothingIsChosenWhereNothingIsWanted) {
  for (const char* accept : {"text/html", "application/json;q=0", "application/json;q=x", "application/json;q=2", "/",
                             ",,;", "image/svg+xml;q=-1"})
    EXPECT_EQ(chosen(accept), "none") << accept;
}

TEST(Media, JsonMayBeCalledJsonOrNothing) {
  for (const char* type : {"", "application/json", "Application/JSON; charset=utf-8", "application/problem+json",
                           "text/json", "application/x-www-form-urlencoded"})
    EXPECT_TRUE(may_be_json(type)) << type;
  for (const char* type : {"text/plain", "multipart/form-data; boundary=x", "application/yaml", "+json", "json"})
    EXPECT_FALSE(may_be_json(type)) << type;
}

} // namespace
} // namespace mc2::server::media_test
