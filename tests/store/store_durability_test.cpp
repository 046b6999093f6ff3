#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "examples.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "place.hpp"

/// What the store keeps when processes die, disks fill up and others write at the same time.
namespace mc2::store::store_durability_test {
namespace {

namespace fs = std::filesystem;
using examples::key_of;
using examples::kNow;
using place::TemporaryDirectory;

class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_.data()) != 0) std::abort();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    for (const int end : ends_)
      if (end >= 0) ::close(end);
  }
  void send(int value) const { EXPECT_EQ(::write(ends_[1], &value, sizeof value), ssize_t{sizeof value}); }
  /// The next value, or `missing` once every writer is gone.
  [[nodiscard]] int receive(int missing) const {
    int value = 0;
    return ::read(ends_[0], &value, sizeof value) == ssize_t{sizeof value} ? value : missing;
  }
  void close_writing_end() {
    ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

std::int64_t rows_of(int index) { return 1024 + std::int64_t{index} * 128; }

/// Keeps one plan after another, and acknowledges each one once the store has kept it.
int keep_and_acknowledge(const fs::path& path, int first, const Pipe& acknowledged) {
  Store store = Store::open(path, OpenMode::ReadWrite).value();
  for (int index = first; index < first + 1000; ++index) {
    if (!store.put_plan(examples::plan(rows_of(index)), "tuned", kNow).ok()) return 1;
    acknowledged.send(index);
  }
  return 0;
}

TEST(StoreDurability, KilledWriterLosesNothingThatWasAcknowledged) {
  const TemporaryDirectory directory;
  std::mt19937 random(20250104);
  int kept_count = 0;
  for (int kill = 0; kill < 50; ++kill) {
    Pipe acknowledged;
    const pid_t writer =
        place::start_child([&] { return keep_and_acknowledge(directory / "mc2.db", kept_count, acknowledged); });
    acknowledged.close_writing_end();
    // The writer goes on while this process counts, so the kill lands anywhere in a transaction.
    for (auto wanted = random() % 3; wanted > 0; --wanted) kept_count = acknowledged.receive(kept_count - 1) + 1;
    for (auto spins = random() % 3'000'000; spins > 0; --spins) asm volatile("");
    ASSERT_EQ(::kill(writer, SIGKILL), 0);
    ASSERT_EQ(place::wait_for(writer), 128 + SIGKILL);
    for (int last = acknowledged.receive(-1); last >= 0; last = acknowledged.receive(-1)) kept_count = last + 1;
  }
  EXPECT_GT(kept_count, 10);
  const Store store = Store::open(directory / "mc2.db", OpenMode::ReadOnly).value();
  EXPECT_TRUE(store.check().is_healthy);
  for (int index = 0; index < kept_count; ++index) {
    const planner::Plan plan = examples::plan(rows_of(index));
    ASSERT_TRUE(store.find_plan(key_of(plan)).ok()) << index << " of " << kept_count;
    EXPECT_EQ(store.find_plan(key_of(plan)).value().document, encode(plan));
  }
}

TEST(StoreDurability, TwoProcessesWriteOneStore) {
  constexpr int kPlanCount = 30;
  const TemporaryDirectory directory;
  const Pipe start;
  const auto write = [&](int first) {
    static_cast<void>(start.receive(0));
    // No process creates the store for the other, so they race for that, too.
    Store store = Store::open(directory / "mc2.db", OpenMode::ReadWrite).value();
    for (int index = first; index < first + kPlanCount; ++index) {
      const auto sample = examples::sample(index);
      if (!store.put_plan(examples::plan(rows_of(index)), "tuned", kNow).ok()) return 1;
      if (!store.append_samples(examples::op(), examples::fingerprint(), {&sample, 1}, kNow).ok()) return 2;
      if (!store.find_plan(key_of(examples::plan(rows_of(index)))).ok()) return 3;
    }
    return 0;
  };
  const pid_t one = place::start_child([&] { return write(0); });
  const pid_t other = place::start_child([&] { return write(kPlanCount); });
  start.send(1);
  start.send(1);
  EXPECT_EQ(place::wait_for(one), 0);
  EXPECT_EQ(place::wait_for(other), 0);
  const Store store = Store::open(directory / "mc2.db", OpenMode::ReadOnly).value();
  EXPECT_TRUE(store.check().is_healthy);
  EXPECT_EQ(store.stats().value().plan_count, 2 * kPlanCount);
  EXPECT_EQ(store.stats().value().sample_count, 2 * kPlanCount);
}

/// Writes until the store says that it cannot. Returns 0 if it says so in one line and still has everything that it
/// kept before.
int fill_until_refused(const fs::path& path, const std::string& expected) {
  Store store = Store::open(path, OpenMode::ReadWrite).value();
  for (int index = 0; index < 10'000; ++index) {
    try {
      if (!store.put_plan(examples::plan(rows_of(index)), "tuned", kNow).ok()) return 1;
    } catch (const SystemError& error) {
      const std::string text = error.what();
      if (text.find(expected) == std::string::npos || text.find('\n') != std::string::npos) return 2;
      if (index == 0) return 3;
      for (int kept = 0; kept < index; ++kept)
        if (!store.find_plan(key_of(examples::plan(rows_of(kept)))).ok()) return 4;
      return store.check().is_healthy && store.stats().value().plan_count == index ? 0 : 5;
    }
  }
  return 6;
}

TEST(StoreDurability, FileSizeLimitIsReportedAndNothingIsLost) {
  const TemporaryDirectory directory;
  EXPECT_EQ(place::run_child([&] {
              ::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{400'000, 400'000};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 97;
              return fill_until_refused(directory / "mc2.db", "nothing already kept was lost");
            }),
            0);
  EXPECT_TRUE(Store::open(directory / "mc2.db", OpenMode::ReadWrite).value().check().is_healthy);
}

TEST(StoreDurability, FullDiskIsReportedAndNothingIsLost) {
  constexpr int kCannotMount = 77;
  const TemporaryDirectory directory;
  const int code = place::run_child([&] {
    // Gives this child a file system of its own, which no other process sees.
    const int user = ::geteuid() == 0 ? 0 : CLONE_NEWUSER;
    if (::unshare(CLONE_NEWNS | user) != 0) return kCannotMount;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kCannotMount;
    if (::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=400k") != 0) return kCannotMount;
    return fill_until_refused(directory / "mc2.db", "the disk is full");
  });
  if (code == kCannotMount) GTEST_SKIP() << "this user may not mount a small file system";
  EXPECT_EQ(code, 0);
}

TEST(StoreDurability, ReadOnlyFileSystemIsReadOnlyAndCanStillBeRead) {
  constexpr int kCannotMount = 77;
  const TemporaryDirectory directory;
  {
    Store store = Store::open(directory / "mc2.db", OpenMode::ReadWrite).value();
    ASSERT_TRUE(store.put_plan(examples::plan(), "tuned", kNow).ok());
  }
  const int code = place::run_child([&] {
    const int user = ::geteuid() == 0 ? 0 : CLONE_NEWUSER;
    const char* const path = directory.path().c_str();
    if (::unshare(CLONE_NEWNS | user) != 0) return kCannotMount;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kCannotMount;
    if (::mount(path, path, nullptr, MS_BIND, nullptr) != 0) return kCannotMount;
    if (::mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0) return kCannotMount;
    const auto refused = Store::open(directory / "mc2.db", OpenMode::ReadWrite);
    if (refused.ok() || refused.error().code != ErrorCode::ReadOnly) return 1;
    const auto store = Store::open(directory / "mc2.db", OpenMode::ReadOnly);
    return store.ok() && store.value().find_plan(key_of(examples::plan())).ok() ? 0 : 2;
  });
  if (code == kCannotMount) GTEST_SKIP() << "this user may not mount a read-only file system";
  EXPECT_EQ(code, 0);
}

} // namespace
} // namespace mc2::store::store_durability_test
