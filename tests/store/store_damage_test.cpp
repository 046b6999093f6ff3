#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>

#include "examples.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "place.hpp"
#include "raw_sql.hpp"
#include "records.hpp"

/// What the store makes of files that something else has changed.
namespace mc2::store::store_damage_test {
namespace {

namespace fs = std::filesystem;
using examples::key_of;
using examples::kNow;
using place::TemporaryDirectory;

/// Fills a store with one document of every kind, and with a second plan.
void fill(const fs::path& path) {
  Store store = Store::open(path, OpenMode::ReadWrite).value();
  const auto profile = examples::profile();
  ASSERT_TRUE(store.put_plan(examples::plan(), "tuned", kNow).ok());
  ASSERT_TRUE(store.put_plan(examples::plan(2048), "tuned", kNow).ok());
  ASSERT_TRUE(store.put_model(examples::model(), kNow).ok());
  ASSERT_TRUE(store.append_samples(profile.op, profile.fingerprint, profile.samples, kNow).ok());
  ASSERT_TRUE(store.add_measurement(profile.fingerprint, examples::measurement(), kNow).ok());
}

void expect_corrupt(const Result<Store>& opened) {
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::Corrupt) << opened.error().text();
  EXPECT_NE(opened.error().message.find("move it away"), std::string::npos) << opened.error().text();
  EXPECT_EQ(opened.error().text().find('\n'), std::string::npos);
}

/// What a query on a possibly damaged file did.
enum class Answer { Right, Refused, Wrong };

Answer ask(const fs::path& path, const planner::Plan& expected, OpenMode mode) {
  try {
    const auto store = Store::open(path, mode);
    if (!store) return Answer::Refused;
    const auto found = store.value().find_plan(key_of(expected));
    if (!found) return Answer::Refused;
    return found.value().document == encode(expected) ? Answer::Right : Answer::Wrong;
  } catch (const SystemError&) {
    return Answer::Refused;
  }
}

TEST(StoreDamage, FileThatIsNoDatabaseIsCorrupt) {
  const TemporaryDirectory directory;
  place::write_file(directory / "mc2.db", std::string(10'000, 'x'));
  for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::ReadWrite}) {
    const auto opened = Store::open(directory / "mc2.db", mode);
    expect_corrupt(opened);
    EXPECT_EQ(opened.error().message.find("salvage"), std::string::npos) << opened.error().text();
  }
  EXPECT_EQ(place::read_file(directory / "mc2.db"), std::string(10'000, 'x')) << "a foreign file was changed";
}

TEST(StoreDamage, DatabaseOfAnotherProgramIsCorruptAndUntouched) {
  const TemporaryDirectory directory;
  execute(directory / "other.db", "CREATE TABLE t (x)");
  const std::string before = place::read_file(directory / "other.db");
  for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::ReadWrite})
    expect_corrupt(Store::open(directory / "other.db", mode));
  EXPECT_EQ(place::read_file(directory / "other.db"), before);
}

TEST(StoreDamage, EveryTruncationIsCorrupt) {
  const TemporaryDirectory directory;
  fill(directory / "whole.db");
  const std::string whole = place::read_file(directory / "whole.db");
  for (std::size_t length = 1; length < whole.size(); length += 511) {
    place::write_file(directory / "cut.db", whole.substr(0, length));
    for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::ReadWrite}) {
      const auto opened = Store::open(directory / "cut.db", mode);
      ASSERT_FALSE(opened.ok()) << length << " bytes";
      EXPECT_EQ(opened.error().code, ErrorCode::Corrupt) << length << " bytes: " << opened.error().text();
    }
  }
}

TEST(StoreDamage, NoFlippedBitServesAWrongPlan) {
  const TemporaryDirectory directory;
  fill(directory / "whole.db");
  const std::string whole = place::read_file(directory / "whole.db");
  std::mt19937 random(20250102);
  std::uniform_int_distribution<std::size_t> positions(0, whole.size() * 8 - 1);
  for (int i = 0; i < 800; ++i) {
    const std::size_t bit = positions(random);
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    place::write_file(directory / "damaged.db", damaged);
    ASSERT_NE(ask(directory / "damaged.db", examples::plan(), OpenMode::ReadOnly), Answer::Wrong) << "bit " << bit;
    // No other operation may crash on the damage either.
    for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::Salvage})
      if (const auto store = Store::open(directory / "damaged.db", mode); store && i % 8 == 0) {
        static_cast<void>(store.value().check());
        static_cast<void>(store.value().export_json());
      }
  }
}

TEST(StoreDamage, EveryFlippedBitOfAPlanIsDetected) {
  const TemporaryDirectory directory;
  fill(directory / "whole.db");
  const std::string whole = place::read_file(directory / "whole.db");
  const std::string document = encode(examples::plan());
  std::mt19937 random(20250103);
  int detected_count = 0, bit_count = 0;
  // The document may continue on overflow pages, so only its first part is looked for.
  const std::size_t start = whole.find(document.substr(0, 400));
  ASSERT_NE(start, std::string::npos);
  for (std::size_t bit = start * 8 + random() % 7; bit < (start + 400) * 8; bit += 7) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    place::write_file(directory / "damaged.db", damaged);
    ++bit_count;
    if (ask(directory / "damaged.db", examples::plan(), OpenMode::ReadOnly) == Answer::Refused) ++detected_count;
  }
  EXPECT_EQ(detected_count, bit_count);
  EXPECT_GT(bit_count, 400);
}

TEST(StoreDamage, ChangedColumnsAreDetectedByName) {
  for (const char* change : {"document = replace(document, 'search', 'search ')", "created_at = '2030-01-01T00:00:00Z'",
                             "digest = replace(digest, 'a', 'b')", "checksum = replace(checksum, '1', '2')"}) {
    const TemporaryDirectory directory;
    fill(directory / "mc2.db");
    execute(directory / "mc2.db", std::string("UPDATE plan SET ") + change + " WHERE m = 1024");
    const Store store = Store::open(directory / "mc2.db", OpenMode::ReadWrite).value();
    const auto found = store.find_plan(key_of(examples::plan()));
    ASSERT_FALSE(found.ok()) << change;
    EXPECT_EQ(found.error().code, ErrorCode::Corrupt) << change;
    EXPECT_NE(found.error().text().find("mc2.db: plan in row 1 is damaged"), std::string::npos) << found.error().text();
    EXPECT_TRUE(store.find_plan(key_of(examples::plan(2048))).ok()) << "the damage spread";
    const auto report = store.check();
    EXPECT_FALSE(report.is_healthy);
    ASSERT_EQ(report.damages.size(), 1U) << change;
    EXPECT_EQ(report.damages[0].table, "plan");
    EXPECT_EQ(report.damages[0].row_id, 1);
    // 1 fingerprint, 2 plans, 1 model, 1 batch of samples and 1 measurement.
    EXPECT_EQ(report.row_count, 6);
  }
}

TEST(StoreDamage, SoundDocumentUnderAnotherKeyIsDetected) {
  for (const char* change : {"m = 4096", "n = 1", "k = 1", "world_size = 4", "dtype = 'bf16'", "purpose = 'other'"}) {
    const TemporaryDirectory directory;
    fill(directory / "mc2.db");
    execute(directory / "mc2.db", std::string("UPDATE plan SET ") + change + " WHERE m = 1024");
    const Store store = Store::open(directory / "mc2.db", OpenMode::ReadWrite).value();
    EXPECT_FALSE(store.check().is_healthy) << change;
    EXPECT_EQ(store.list_plans().value().size(), 1U) << change;
    PlanKey moved = key_of(examples::plan());
    if (std::string(change) == "m = 4096") moved.op.m = 4096;
    EXPECT_FALSE(store.find_plan(moved).ok()) << change;
  }
}

TEST(StoreDamage, OtherTablesAreCheckedToo) {
  const TemporaryDirectory directory;
  fill(directory / "mc2.db");
  execute(directory / "mc2.db",
          "UPDATE model SET document = replace(document, '12.5', '12.6'); "
          "UPDATE sample_batch SET document = replace(document, '123456789', '123456780'); "
          "UPDATE measurement SET document = replace(document, '121.0', '122.0'); "
          "UPDATE fingerprint SET document = replace(document, 'Example', 'Changed')");
  const Store store = Store::open(directory / "mc2.db", OpenMode::ReadWrite).value();
  const auto fingerprint = examples::fingerprint();
  EXPECT_EQ(store.find_model(examples::op(), fingerprint).error().code, ErrorCode::Corrupt);
  EXPECT_EQ(store.find_profile(examples::op(), fingerprint).error().code, ErrorCode::Corrupt);
  EXPECT_TRUE(store.list_measurements(examples::op(), fingerprint).value().empty());
  EXPECT_EQ(store.check().damages.size(), 4U);
}

TEST(StoreDamage, AMachineIsReadFromTheDocumentsThatNameIt) {
  const TemporaryDirectory directory;
  fill(directory / "mc2.db");
  execute(directory / "mc2.db", "UPDATE fingerprint SET document = replace(document, 'Example', 'Changed')");
  const auto machines = [&] {
    return Store::open(directory / "mc2.db", OpenMode::ReadWrite).value().list_fingerprints().value();
  };
  ASSERT_EQ(machines().size(), 1U);
  EXPECT_EQ(machines().front().fingerprint, examples::fingerprint());
  execute(directory / "mc2.db",
          "DELETE FROM model; DELETE FROM sample_batch; DELETE FROM measurement; UPDATE plan SET document = 'x'");
  EXPECT_TRUE(machines().empty());
}

TEST(StoreDamage, ASoundCopyIsFoundByItsDigest) {
  const TemporaryDirectory directory;
  Store store = Store::open(directory / "mc2.db", OpenMode::ReadWrite).value();
  const std::string digest = store.put_plan(examples::plan(), "tuned", kNow).value();
  ASSERT_EQ(store.put_plan(examples::plan(), "other", kNow).value(), digest);
  for (const char* damaged : {"other", "tuned"}) {
    execute(directory / "mc2.db", std::string("UPDATE plan SET checksum = 'x' WHERE purpose = '") + damaged + "'");
    const auto found = store.find_plan(digest.substr(0, 8));
    if (std::string(damaged) == "other")
      EXPECT_EQ(found.value().plan, examples::plan());
    else
      EXPECT_EQ(found.error().code, ErrorCode::Corrupt);
  }
}

TEST(StoreDamage, KeepingAPlanAgainRepairsIt) {
  const TemporaryDirectory directory;
  fill(directory / "mc2.db");
  execute(directory / "mc2.db", "UPDATE plan SET document = 'x' WHERE m = 1024; UPDATE fingerprint SET document = 'x'");
  Store store = Store::open(directory / "mc2.db", OpenMode::ReadWrite).value();
  EXPECT_FALSE(store.check().is_healthy);
  ASSERT_TRUE(store.put_plan(examples::plan(), "tuned", kNow).ok());
  EXPECT_TRUE(store.check().is_healthy);
}

TEST(StoreDamage, MissingTableIsCorrupt) {
  const TemporaryDirectory directory;
  fill(directory / "mc2.db");
  execute(directory / "mc2.db", "DROP TABLE plan");
  Store store = Store::open(directory / "mc2.db", OpenMode::ReadWrite).value();
  EXPECT_EQ(store.find_plan(key_of(examples::plan())).error().code, ErrorCode::Corrupt);
  EXPECT_EQ(store.put_plan(examples::plan(), "tuned", kNow).error().code, ErrorCode::Corrupt);
  EXPECT_EQ(store.stats().error().code, ErrorCode::Corrupt);
  EXPECT_FALSE(store.check().is_healthy);
}

TEST(StoreDamage, ADocumentThatCannotBeIsFoundThoughItsChecksumsHold) {
  const TemporaryDirectory directory;
  fill(directory / "mc2.db");
  planner::Plan plan = examples::plan(1024);
  plan.serial_us = -120;
  Record record = make_record(plan.op, plan.fingerprint, encode(plan), kNow);
  record.key.purpose = "tuned";
  execute(directory / "mc2.db", "UPDATE plan SET document = '" + record.document + "', digest = '" + record.digest +
                                    "', checksum = '" + checksum(Table::Plan, record) + "' WHERE m = 1024");
  const Store store = Store::open(directory / "mc2.db", OpenMode::ReadOnly).value();
  const auto report = store.check();
  ASSERT_EQ(report.damages.size(), 1U);
  EXPECT_NE(report.damages[0].what.find("serial_us: is -120 us; legal: 0 to 1e15"), std::string::npos);
  EXPECT_EQ(store.find_plan(key_of(plan)).error().code, ErrorCode::Corrupt);
}

constexpr std::size_t kPageBytes = 4096;
constexpr int kPlanCount = 40;

/// Fills a store with one document of every other kind, and with kPlanCount plans.
void fill_with_plans(const fs::path& path) {
  fill(path); // two plans
  Store store = Store::open(path, OpenMode::ReadWrite).value();
  for (int i = 2; i < kPlanCount; ++i) ASSERT_TRUE(store.put_plan(examples::plan(4096 + i), "tuned", kNow).ok());
}

/// How many documents of a damaged store can be exported and imported again.
std::int64_t salvaged_count(const fs::path& path, const TemporaryDirectory& directory) {
  const auto exported = Store::open(path, OpenMode::Salvage).value().export_all().value();
  fs::remove(directory / "new.db");
  Store anew = Store::open(directory / "new.db", OpenMode::ReadWrite).value();
  const auto count = anew.import_json(exported.json).value().added_count;
  EXPECT_TRUE(count == kPlanCount + 3 || !exported.damaged.empty()) << "what is lost is named";
  return count;
}

TEST(StoreDamage, WhatATruncationLeavesIsSalvaged) {
  const TemporaryDirectory directory;
  fill_with_plans(directory / "whole.db");
  const std::string whole = place::read_file(directory / "whole.db");
  for (std::size_t lost_pages = 1; lost_pages <= 8; ++lost_pages) {
    place::write_file(directory / "cut.db", whole.substr(0, whole.size() - lost_pages * kPageBytes));
    // There are also a model, a batch of samples and a measurement. No page holds more than two plans.
    EXPECT_GE(salvaged_count(directory / "cut.db", directory), kPlanCount + 3 - 2 * static_cast<int>(lost_pages));
  }
}

TEST(StoreDamage, ALostPageInTheMiddleLosesOnlyWhatItHeld) {
  const TemporaryDirectory directory;
  fill_with_plans(directory / "whole.db");
  std::string content = place::read_file(directory / "whole.db");
  content.replace(content.size() / 2 / kPageBytes * kPageBytes, kPageBytes, kPageBytes, '\0');
  place::write_file(directory / "hole.db", content);
  EXPECT_GE(salvaged_count(directory / "hole.db", directory), kPlanCount + 3 - 2);
}

TEST(StoreDamage, SalvageRefusesWhatIsNoStore) {
  const TemporaryDirectory directory;
  place::write_file(directory / "mc2.db", std::string(10'000, 'x'));
  expect_corrupt(Store::open(directory / "mc2.db", OpenMode::Salvage));
  fill(directory / "whole.db");
  place::write_file(directory / "cut.db", place::read_file(directory / "whole.db").substr(0, 1000));
  expect_corrupt(Store::open(directory / "cut.db", OpenMode::Salvage));
  EXPECT_EQ(Store::open(directory / "missing.db", OpenMode::Salvage).error().code, ErrorCode::NotFound);
}

/// Leaves left.db and its journal as a writer does that is killed after its changes have spilled to the file.
void leave_hot_journal(const TemporaryDirectory& directory) {
  fill(directory / "mc2.db");
  RawConnection writer(directory / "mc2.db");
  writer.execute(
      "PRAGMA cache_size = 1; BEGIN IMMEDIATE; UPDATE plan SET document = document || 'damaged'; "
      "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) "
      "INSERT INTO fingerprint (digest, document, checksum) SELECT i, hex(zeroblob(2000)), '' FROM n");
  fs::copy_file(directory / "mc2.db", directory / "left.db");
  fs::copy_file(directory / "mc2.db-journal", directory / "left.db-journal");
  ASSERT_NE(place::read_file(directory / "left.db").find("damaged"), std::string::npos) << "nothing was spilled";
}

TEST(StoreDamage, JournalOfAKilledWriterIsRolledBackEvenForReaders) {
  const TemporaryDirectory directory;
  leave_hot_journal(directory);
  EXPECT_EQ(ask(directory / "left.db", examples::plan(), OpenMode::ReadOnly), Answer::Right);
  EXPECT_TRUE(Store::open(directory / "left.db", OpenMode::ReadWrite).value().check().is_healthy);
}

TEST(StoreDamage, JournalThatAReaderMayNotRollBackIsRefused) {
  const TemporaryDirectory directory;
  leave_hot_journal(directory);
  for (const char* name : {"left.db", "left.db-journal"}) fs::permissions(directory / name, fs::perms::owner_read);
  fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(place::run_unprivileged(directory.path(),
                                    [&] {
                                      const auto refused = Store::open(directory / "left.db", OpenMode::ReadOnly);
                                      return !refused.ok() && refused.error().code == ErrorCode::ReadOnly ? 0 : 1;
                                    }),
            0);
}

} // namespace
} // namespace mc2::store::store_damage_test
