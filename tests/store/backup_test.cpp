#include "mc2/store/backup.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "examples.hpp"
#include "mc2/store/store.hpp"
#include "place.hpp"

namespace mc2::store::backup_test {
namespace {

namespace fs = std::filesystem;
using examples::kNow;
using place::TemporaryDirectory;

Store open_new(const fs::path& path) { return Store::open(path, OpenMode::ReadWrite).value(); }

std::int64_t file_count(const TemporaryDirectory& directory) {
  return std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator());
}

TEST(Backup, CopyIsAStoreWithTheSameContent) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  ASSERT_TRUE(store.put_plan(examples::plan(), "tuned", kNow).ok());
  const auto copied = back_up(directory / "mc2.db", directory / "copy.db");
  ASSERT_TRUE(copied.ok()) << copied.error().text();
  const Store copy = Store::open(directory / "copy.db", OpenMode::ReadOnly).value();
  EXPECT_TRUE(copy.check().is_healthy);
  EXPECT_EQ(copy.export_json().value(), store.export_json().value());
  EXPECT_EQ(copy.revision().value(), store.revision().value());
  EXPECT_EQ(file_count(directory), 2);
  struct stat status {};
  ASSERT_EQ(::stat((directory / "copy.db").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST(Backup, NothingIsOverwritten) {
  const TemporaryDirectory directory;
  const Store store = open_new(directory / "mc2.db");
  for (const char* name : {"mc2.db", "link"}) {
    if (std::string(name) == "link") fs::create_symlink(directory / "nowhere", directory / "link");
    const auto refused = back_up(directory / "mc2.db", directory / name);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
    EXPECT_NE(refused.error().message.find("is there already"), std::string::npos);
  }
  EXPECT_EQ(back_up(directory / "mc2.db", "").error().code, ErrorCode::InvalidSpec);
  EXPECT_EQ(back_up(directory / "mc2.db", directory / "mc2.db" / "below").error().code, ErrorCode::InvalidSpec);
  EXPECT_EQ(back_up(directory / "none.db", directory / "copy.db").error().code, ErrorCode::NotFound);
  EXPECT_FALSE(fs::exists(directory / "copy.db"));
  EXPECT_TRUE(store.check().is_healthy);
}

TEST(Backup, UnfinishedCopyOfAKilledOneIsInNobodysWay) {
  const TemporaryDirectory directory;
  { const Store created = open_new(directory / "mc2.db"); }
  place::write_file(directory / "copy.db.part", "half a copy");
  ASSERT_TRUE(back_up(directory / "mc2.db", directory / "copy.db").ok());
  EXPECT_TRUE(Store::open(directory / "copy.db", OpenMode::ReadOnly).value().check().is_healthy);
  EXPECT_FALSE(fs::exists(directory / "copy.db.part"));
}

/// Keeps adding measurements until it is killed.
[[noreturn]] void write_on(const fs::path& path) {
  Store store = open_new(path);
  while (store.add_measurement(examples::fingerprint(), examples::measurement(), kNow).ok()) {
  }
  ::_exit(1);
}

TEST(Backup, EveryCopyIsWholeWhileAnotherProcessWrites) {
  const TemporaryDirectory directory;
  const fs::path path = directory / "mc2.db";
  { const Store created = open_new(path); }
  const pid_t writer = ::fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) write_on(path);
  std::int64_t before = 0;
  for (int i = 0; i < 10; ++i) {
    const std::int64_t known = Store::open(path, OpenMode::ReadOnly).value().stats().value().measurement_count;
    const fs::path to = directory / ("copy" + std::to_string(i) + ".db");
    const auto copied = back_up(path, to);
    EXPECT_TRUE(copied.ok()) << copied.error().text();
    const Store copy = Store::open(to, OpenMode::ReadOnly).value();
    EXPECT_TRUE(copy.check().is_healthy);
    const std::int64_t count = copy.stats().value().measurement_count;
    EXPECT_GE(count, known) << "what was kept before is in the copy";
    EXPECT_GE(count, before);
    before = count;
  }
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  EXPECT_TRUE(open_new(path).check().is_healthy);
}

} // namespace
} // namespace mc2::store::backup_test
