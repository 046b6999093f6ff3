#include "output_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "mc2/planner/error.hpp"

namespace mc2::cli::output_file_test {
namespace {

namespace fs = std::filesystem;

class OutputFiles : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string content(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  static void put(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  static void write(const fs::path& path, const std::string& text) {
    OutputFile file(path);
    file.write(text);
    file.keep();
  }
  static std::string refusal(const fs::path& path) {
    try {
      write(path, "new");
    } catch (const SystemError& error) {
      return error.what();
    }
    return "nothing was refused";
  }
  [[nodiscard]] std::size_t file_count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_ = fs::path(::testing::TempDir()) /
                     (std::string("output_file_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(OutputFiles, StayAsTheyWereUntilTheyAreKept) {
  put(folder_ / "a", "old");
  {
    OutputFile file(folder_ / "a");
    file.write("half of the ne");
  }
  EXPECT_EQ(content(folder_ / "a"), "old");
  EXPECT_EQ(file_count(), 1U);
  write(folder_ / "a", "new");
  EXPECT_EQ(content(folder_ / "a"), "new");
  EXPECT_EQ(file_count(), 1U);
}

TEST_F(OutputFiles, KeepTheirPermissions) {
  put(folder_ / "a", "old");
  fs::permissions(folder_ / "a", fs::perms::owner_read);
  write(folder_ / "a", "new");
  EXPECT_EQ(fs::status(folder_ / "a").permissions(), fs::perms::owner_read);
}

TEST_F(OutputFiles, AreWrittenWhereALinkLeads) {
  fs::create_symlink("b", folder_ / "a");
  for (const char* text : {"first", "second"}) { // a link to nothing, then to a file
    write(folder_ / "a", text);
    EXPECT_TRUE(fs::is_symlink(folder_ / "a"));
    EXPECT_EQ(content(folder_ / "b"), text);
  }
}

TEST_F(OutputFiles, GoIntoPipesThatStay) {
  const fs::path pipe = folder_ / "a";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write(pipe, "new");
  char got[8] = {};
  EXPECT_EQ(read(reader, got, sizeof got), 3);
  EXPECT_STREQ(got, "new");
  EXPECT_EQ(close(reader), 0);
  EXPECT_TRUE(fs::is_fifo(pipe));
}

// /dev/stdout is such a pipe where the output goes into another program.
TEST_F(OutputFiles, GoIntoPipesWithoutAName) {
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  write("/proc/self/fd/" + std::to_string(ends[1]), "new");
  char got[8] = {};
  EXPECT_EQ(read(ends[0], got, sizeof got), 3);
  EXPECT_STREQ(got, "new");
  EXPECT_EQ(close(ends[0]) + close(ends[1]), 0);
}

TEST_F(OutputFiles, AreCheckedWithoutBeingTouched) {
  put(folder_ / "a", "old");
  OutputFile::check(folder_ / "a");
  OutputFile::check(folder_ / "b");
  EXPECT_EQ(content(folder_ / "a"), "old");
  EXPECT_EQ(file_count(), 1);
  EXPECT_THROW(OutputFile::check(folder_), SystemError);
  EXPECT_THROW(OutputFile::check(folder_ / "nowhere" / "a"), SystemError);
}

TEST_F(OutputFiles, AreNoStoresAndNoDirectories) {
  const std::string store = std::string("SQLite format 3\0", 16) + "and what it keeps";
  put(folder_ / "a.db", store);
  EXPECT_THAT(refusal(folder_ / "a.db"), ::testing::HasSubstr("it is a store, which would be lost; name another file"));
  fs::create_symlink("a.db", folder_ / "link");
  EXPECT_THAT(refusal(folder_ / "link"), ::testing::HasSubstr("it is a store"));
  EXPECT_EQ(content(folder_ / "a.db"), store);
  EXPECT_THAT(refusal(folder_), ::testing::HasSubstr("it is a directory; name a file"));
  EXPECT_THAT(refusal(folder_ / "nowhere" / "a"), ::testing::HasSubstr("No such file or directory"));
}

} // namespace
} // namespace mc2::cli::output_file_test
