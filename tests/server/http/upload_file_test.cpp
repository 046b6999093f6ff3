#include "http/upload_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "store/place.hpp"

namespace mc2::server::upload_file_test {
namespace {

namespace fs = std::filesystem;

TEST(UploadFile, BodyIsWhatWasAppendedAndOutlivesTheFile) {
  const store::place::TemporaryDirectory place;
  UploadRoom room(place.path(), 1);
  Body body;
  const std::string piece(100'000, 'x');
  {
    auto file = room.enter();
    ASSERT_TRUE(file.has_value());
    file->append(piece);
    file->append("end");
    body = file->finish();
  }
  EXPECT_EQ(std::string_view(body), piece + "end");
  EXPECT_TRUE(fs::is_empty(place.path())) << "the file has no name";
}

TEST(UploadFile, PlaceIsTakenUntilFileAndBodyAreGone) {
  const store::place::TemporaryDirectory place;
  UploadRoom room(place.path(), 1);
  Body body;
  {
    auto file = room.enter();
    ASSERT_TRUE(file.has_value());
    EXPECT_FALSE(room.enter().has_value());
    file->append("x");
    body = file->finish();
  }
  EXPECT_FALSE(room.enter().has_value());
  body = {};
  EXPECT_TRUE(room.enter().has_value());
}

TEST(Upload, TakesAPlaceOnceItIsNotSmallAnyMore) {
  const store::place::TemporaryDirectory place;
  UploadRoom room(place.path(), 1);
  Upload upload(room, 4), other(room, 4);
  EXPECT_TRUE(upload.append("1234"));
  EXPECT_TRUE(other.append("abc"));
  EXPECT_FALSE(room.is_full());
  EXPECT_TRUE(upload.append("5"));
  EXPECT_TRUE(room.is_full());
  EXPECT_TRUE(upload.append("6"));
  EXPECT_TRUE(other.append("d")) << "still small";
  EXPECT_FALSE(other.append("e"));
  EXPECT_EQ(std::string_view(upload.finish()), "123456");
  EXPECT_EQ(std::string_view(other.finish()), "abcd");
}

TEST(UploadFile, EmptyBodyNeedsNoMapping) {
  const store::place::TemporaryDirectory place;
  UploadRoom room(place.path(), 1);
  EXPECT_EQ(std::string_view(room.enter()->finish()), "");
}

TEST(UploadFile, DirectoryThatIsGoneIsASystemErrorAndTakesNoPlace) {
  UploadRoom room(fs::path(testing::TempDir()) / "mc2_no_such_directory", 1);
  EXPECT_THROW(static_cast<void>(room.enter()), SystemError);
  EXPECT_THROW(static_cast<void>(room.enter()), SystemError);
}

} // namespace
} // namespace mc2::server::upload_file_test
