#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "examples.hpp"
#include "fault_vfs.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "place.hpp"

/// What the store keeps when any single operation of the file system fails, and when the power goes at any moment.
namespace mc2::store::store_faults_test {
namespace {

namespace fs = std::filesystem;
using examples::kNow;
using faults::Fault;
using faults::FaultyDisk;
using faults::Injection;

/// The documents that may be found under a key: one after the store has acknowledged it, several after a failure.
using Allowed = std::set<std::optional<std::string>>;

planner::Plan plan_of(std::int64_t rows, double makespan_us = 90.5) {
  planner::Plan plan = examples::plan(rows);
  plan.makespan.us = plan.makespan.low_us = plan.makespan.high_us = makespan_us;
  plan.timeline.makespan_us = makespan_us;
  return plan;
}

/// A store in use: opened, written, changed, closed and opened again.
class Use {
 public:
  explicit Use(fs::path path) : path_(std::move(path)) {}

  void run() {
    open();
    for (const std::int64_t rows : {256, 512, 768}) put(plan_of(rows));
    put(plan_of(256, 95.25));
    keep_samples();
    remove(plan_of(512));
    store_.reset();
    open();
    put(plan_of(1024));
    store_.reset();
  }

  [[nodiscard]] int acknowledged_count() const { return acknowledged_count_; }
  [[nodiscard]] const std::map<std::int64_t, Allowed>& allowed() const { return allowed_; }
  /// What the store said about failures, where that was not one clean line.
  [[nodiscard]] const std::string& untidy() const { return untidy_; }

 private:
  /// Returns true if it succeeds.
  template <typename Body>
  bool attempt(Body&& body) {
    std::string text;
    try {
      const auto result = body();
      if (result) return true;
      text = result.error().text();
    } catch (const SystemError& error) {
      text = error.what();
    }
    if (text.empty() || text.find('\n') != std::string::npos) untidy_ = "'" + text + "'";
    return false;
  }

  void open() {
    attempt([&] {
      auto opened = Store::open(path_, OpenMode::ReadWrite);
      if (opened) store_.emplace(std::move(opened).value());
      return opened ? Result<void>() : Result<void>(opened.error());
    });
  }

  /// Notes that the key then holds `document` or, where the store did not acknowledge it, what it held before.
  void settle(std::int64_t rows, bool is_acknowledged, const std::optional<std::string>& document) {
    Allowed& allowed = allowed_.try_emplace(rows, Allowed{std::nullopt}).first->second;
    if (is_acknowledged) allowed.clear();
    allowed.insert(document);
    acknowledged_count_ += is_acknowledged ? 1 : 0;
  }

  void put(const planner::Plan& plan) {
    if (!store_) return;
    settle(plan.op.m, attempt([&] { return store_->put_plan(plan, "tuned", kNow); }), encode(plan));
  }

  void remove(const planner::Plan& plan) {
    if (!store_) return;
    const bool is_removed = attempt([&] { return store_->remove_plan(digest(encode(plan))); });
    // There is nothing to remove where the plan was not kept.
    if (is_removed || allowed_[plan.op.m] != Allowed{std::nullopt}) settle(plan.op.m, is_removed, std::nullopt);
  }

  void keep_samples() {
    if (!store_) return;
    const auto sample = examples::sample();
    attempt([&] { return store_->append_samples(examples::op(), examples::fingerprint(), {&sample, 1}, kNow); });
  }

  fs::path path_;
  std::optional<Store> store_;
  std::map<std::int64_t, Allowed> allowed_;
  std::string untidy_;
  int acknowledged_count_ = 0;
};

/// Opens what is left on a disk that does not fail, and checks it.
void verify(const fs::path& path, const Use& use) {
  if (use.acknowledged_count() == 0 && !fs::exists(path)) return;
  const auto opened = Store::open(path, OpenMode::ReadWrite);
  ASSERT_TRUE(opened.ok()) << opened.error().text();
  const Store& store = opened.value();
  EXPECT_TRUE(store.check().is_healthy) << store.check().database_check;
  for (const auto& [rows, allowed] : use.allowed()) {
    const auto found = store.find_plan(examples::key_of(plan_of(rows)));
    if (!found) {
      ASSERT_EQ(found.error().code, ErrorCode::NotFound) << found.error().text();
    }
    const auto document = found ? std::optional(found.value().document) : std::nullopt;
    EXPECT_TRUE(allowed.contains(document)) << rows << (document ? " has another plan" : " is lost");
  }
}

/// A folder in memory, where flushing costs nothing.
place::TemporaryDirectory memory_folder() { return place::TemporaryDirectory("/dev/shm/"); }

std::int64_t operations_of_a_use() {
  const auto folder = memory_folder();
  FaultyDisk disk({});
  Use use(folder / "mc2.db");
  use.run();
  EXPECT_EQ(use.acknowledged_count(), 6);
  return disk.operation_count();
}

void use_with(const Injection& injection) {
  const auto folder = memory_folder();
  Use use(folder / "mc2.db");
  {
    FaultyDisk disk(injection);
    use.run();
    if (injection.fault == Fault::PowerCut) disk.settle();
  }
  EXPECT_EQ(use.untidy(), "");
  verify(folder / "mc2.db", use);
}

/// Runs a use once for each of its operations, and injects the fault there. Returns the number of operations.
std::int64_t use_with_each(Injection injection) {
  const std::int64_t count = operations_of_a_use();
  for (injection.at = 0; injection.at < count && !::testing::Test::HasFailure(); ++injection.at) {
    SCOPED_TRACE("operation " + std::to_string(injection.at) + " of " + std::to_string(count) + ", seed " +
                 std::to_string(injection.seed));
    use_with(injection);
    ++injection.seed;
  }
  return count;
}

TEST(StoreFaults, AnOperationThatFailsOnceLosesNothingAcknowledged) {
  EXPECT_GT(use_with_each({.fault = Fault::IoError}), 250);
}

TEST(StoreFaults, ADiskThatFailsForGoodLosesNothingAcknowledged) {
  EXPECT_GT(use_with_each({.fault = Fault::IoError, .is_lasting = true}), 250);
}

TEST(StoreFaults, AFullDiskLosesNothingAcknowledged) {
  EXPECT_GT(use_with_each({.fault = Fault::DiskFull, .is_lasting = true}), 250);
}

TEST(StoreFaults, APowerCutLosesNothingAcknowledged) {
  for (const unsigned seed : {1U, 100'001U, 200'001U})
    EXPECT_GT(use_with_each({.fault = Fault::PowerCut, .seed = seed}), 250);
}

/// As pread(), but gives less than was asked for, as the kernel may.
ssize_t short_pread(int file, void* into, std::size_t count, off_t offset) {
  return ::pread(file, into, count > 1 ? count / 2 : count, offset);
}

TEST(StoreFaults, ReadsThatComeInPiecesAreWhole) {
  sqlite3_vfs* const vfs = sqlite3_vfs_find("unix");
  for (const char* const call : {"pread", "pread64"}) {
    if (vfs->xGetSystemCall(vfs, call) == nullptr) continue; // SQLite was built for the other one
    ASSERT_EQ(vfs->xSetSystemCall(vfs, call, reinterpret_cast<sqlite3_syscall_ptr>(&short_pread)), SQLITE_OK);
  }
  use_with({});
  EXPECT_EQ(vfs->xSetSystemCall(vfs, nullptr, nullptr), SQLITE_OK); // restores all calls
}

} // namespace
} // namespace mc2::store::store_faults_test
