#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "examples.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "place.hpp"
#include "raw_sql.hpp"

namespace mc2::store::transfer_test {
namespace {

using examples::key_of;
using examples::kNow;
using nlohmann::json;
using place::TemporaryDirectory;

constexpr const char* kLater = "2025-06-07T08:09:10Z";

Store open_new(const std::filesystem::path& path) { return Store::open(path, OpenMode::ReadWrite).value(); }

void fill(Store& store) {
  const auto profile = examples::profile();
  ASSERT_TRUE(store.put_plan(examples::plan(), "tuned", kNow).ok());
  ASSERT_TRUE(store.put_model(examples::model(), kNow).ok());
  ASSERT_TRUE(store.append_samples(profile.op, profile.fingerprint, profile.samples, kNow).ok());
  ASSERT_TRUE(store.add_measurement(profile.fingerprint, examples::measurement(), kNow).ok());
}

planner::Plan changed_plan() {
  planner::Plan plan = examples::plan();
  plan.reason = "theirs";
  return plan;
}

TEST(Transfer, ExportThenImportGivesTheSameStore) {
  const TemporaryDirectory directory;
  Store from = open_new(directory / "from.db"), into = open_new(directory / "into.db");
  fill(from);
  const std::string exported = from.export_json().value();
  const auto report = into.import_json(exported);
  ASSERT_TRUE(report.ok()) << report.error().text();
  EXPECT_EQ(report.value().added_count, 4);
  EXPECT_EQ(into.export_json().value(), exported);
  EXPECT_EQ(into.find_plan(key_of(examples::plan())).value().document, encode(examples::plan()));
  EXPECT_TRUE(into.check().is_healthy);
}

TEST(Transfer, KeepsTheCommittedPartsOfAnImportThatFails) {
  const TemporaryDirectory directory;
  Store from = open_new(directory / "from.db"), into = open_new(directory / "into.db");
  for (int m = 1; m <= 600; ++m) {
    const auto sample = examples::sample(0, examples::op(m));
    ASSERT_TRUE(from.append_samples(examples::op(m), examples::fingerprint(), {&sample, 1}, kNow).ok());
  }
  const std::string exported = from.export_json().value();
  RawConnection raw(directory / "into.db");
  raw.execute(
      "CREATE TRIGGER full BEFORE INSERT ON sample_batch WHEN (SELECT count(*) FROM sample_batch) = 300 "
      "BEGIN SELECT RAISE(ABORT, 'full'); END");
  const auto failed = into.import_json(exported);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find("256 documents were added before"), std::string::npos) << failed.error().text();
  EXPECT_EQ(into.stats().value().sample_count, 256); // the first part
  raw.execute("DROP TRIGGER full");
  const auto rest = into.import_json(exported).value();
  EXPECT_EQ(rest.added_count, 344);
  EXPECT_EQ(rest.same_count, 256);
  EXPECT_EQ(into.import_json(exported).value().same_count, 600);
}

TEST(Transfer, ExportIsCanonicalJson) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  EXPECT_EQ(
      store.export_json().value(),
      "{\"damages\":[],\"measurements\":[],\"models\":[],\"plans\":[],\"samples\":[],\"schema\":\"mc2.store/1\"}");
  fill(store);
  const std::string exported = store.export_json().value();
  EXPECT_EQ(exported, json::parse(exported).dump());
}

TEST(Transfer, ImportingTwiceAddsNothing) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  fill(store);
  const auto report = store.import_json(store.export_json().value()).value();
  EXPECT_EQ(report.added_count, 0);
  EXPECT_EQ(report.same_count, 4);
  EXPECT_TRUE(report.conflicts.empty());
  EXPECT_EQ(store.stats().value().sample_count, 2);
}

TEST(Transfer, MergeKeepsOursAndNamesTheConflict) {
  const TemporaryDirectory directory;
  Store ours = open_new(directory / "ours.db"), theirs = open_new(directory / "theirs.db");
  fill(ours);
  ASSERT_TRUE(theirs.put_plan(changed_plan(), "tuned", kLater).ok());
  ASSERT_TRUE(theirs.put_plan(examples::plan(2048), "tuned", kLater).ok());
  const auto report = ours.merge(theirs).value();
  EXPECT_EQ(report.added_count, 1);
  EXPECT_EQ(report.same_count, 0);
  ASSERT_EQ(report.conflicts.size(), 1U);
  EXPECT_NE(report.conflicts[0].find("plan for matmul_all_reduce m=1024 n=512 k=256 f32 x2 (tuned): kept ours " +
                                     digest(encode(examples::plan())).substr(0, 12) + " of " + kNow + ", left theirs " +
                                     digest(encode(changed_plan())).substr(0, 12) + " of " + kLater),
            std::string::npos)
      << report.conflicts[0];
  EXPECT_EQ(ours.find_plan(key_of(examples::plan())).value().plan, examples::plan());
  EXPECT_EQ(ours.find_plan(key_of(examples::plan(2048))).value().created_at, kLater);
}

TEST(Transfer, SameContentOfAnotherTimeIsNoConflict) {
  const TemporaryDirectory directory;
  Store ours = open_new(directory / "ours.db"), theirs = open_new(directory / "theirs.db");
  ASSERT_TRUE(ours.put_plan(examples::plan(), "tuned", kNow).ok());
  ASSERT_TRUE(theirs.put_plan(examples::plan(), "tuned", kLater).ok());
  const auto report = ours.merge(theirs).value();
  EXPECT_EQ(report.same_count, 1);
  EXPECT_TRUE(report.conflicts.empty());
}

TEST(Transfer, MergingAStoreWithItselfAddsNothing) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  fill(store);
  EXPECT_EQ(store.merge(store).value().same_count, 4);
  EXPECT_EQ(store.merge(Store::open(directory / "mc2.db", OpenMode::ReadOnly).value()).value().same_count, 4);
}

TEST(Transfer, DamagedRowsAreNamedAndNotTaken) {
  const TemporaryDirectory directory;
  Store ours = open_new(directory / "ours.db");
  {
    Store theirs = open_new(directory / "theirs.db");
    fill(theirs);
  }
  execute(directory / "theirs.db", "UPDATE plan SET document = replace(document, '120.0', '119.0')");
  const Store theirs = open_new(directory / "theirs.db");
  const auto report = ours.merge(theirs).value();
  EXPECT_EQ(report.added_count, 3);
  ASSERT_EQ(report.damaged.size(), 1U);
  EXPECT_NE(report.damaged[0].find("plan row 1"), std::string::npos);
  EXPECT_EQ(ours.stats().value().plan_count, 0);
  EXPECT_EQ(json::parse(theirs.export_json().value())["damages"].size(), 1U);
}

TEST(Transfer, TheirSoundPlanReplacesOurDamagedOne) {
  const TemporaryDirectory directory;
  Store theirs = open_new(directory / "theirs.db");
  {
    Store ours = open_new(directory / "ours.db");
    fill(ours);
    fill(theirs);
  }
  execute(directory / "ours.db", "UPDATE plan SET document = replace(document, '120.0', '119.0')");
  Store ours = open_new(directory / "ours.db");
  EXPECT_EQ(ours.merge(theirs).value().added_count, 1);
  EXPECT_EQ(ours.find_plan(key_of(examples::plan())).value().plan, examples::plan());
  EXPECT_TRUE(ours.check().is_healthy);
}

TEST(Transfer, ABadDocumentIsRefusedByItsFieldAndTheOthersAreKept) {
  const TemporaryDirectory directory;
  Store from = open_new(directory / "from.db");
  fill(from);
  const json good = json::parse(from.export_json().value());
  const std::pair<std::string, json> changes[]{{"/samples/0/document/schema", "mc2.profile/2"},
                                               {"/samples/0/document/samples/1/time_ns", 0},
                                               {"/plans/0/document/op/m", 0},
                                               {"/plans/0/document/op/kind", "?"},
                                               {"/plans/0/document/makespan/us", -1},
                                               {"/plans/0/document/reason", "\x1b[31m"},
                                               {"/models/0/document/variants/0/variant/name", ""},
                                               {"/measurements/0/document/fused_us", 1e300}};
  for (const auto& [pointer, value] : changes) {
    json document = good;
    document[json::json_pointer(pointer)] = value;
    std::filesystem::remove(directory / "into.db");
    Store into = open_new(directory / "into.db");
    const auto report = into.import_json(document.dump()).value();
    EXPECT_EQ(report.added_count, 3) << pointer;
    ASSERT_EQ(report.refused.size(), 1U) << pointer;
    const std::string list = pointer.substr(1, pointer.find('/', 1) - 1), last = json::json_pointer(pointer).back();
    EXPECT_TRUE(report.refused.front().starts_with(list + "[0].document.")) << report.refused.front();
    EXPECT_NE(report.refused.front().find("." + last + ": "), std::string::npos) << report.refused.front();
    EXPECT_TRUE(into.check().is_healthy);
  }
}

TEST(Transfer, ADocumentThatWouldAnswerWronglyIsRefusedByItsField) {
  const TemporaryDirectory directory;
  Store from = open_new(directory / "from.db");
  fill(from);
  const json good = json::parse(from.export_json().value());
  json shared = good, nameless = good;
  shared["plans"][0]["document"]["fingerprint"]["ranks_per_device"] = "2";
  nameless["plans"][0]["document"]["fingerprint"] = json::object(); // an earlier release may have kept it
  const auto report = open_new(directory / "into.db").import_json(shared.dump()).value();
  EXPECT_EQ(report.added_count, 3);
  ASSERT_EQ(report.refused.size(), 1U);
  EXPECT_TRUE(report.refused.front().starts_with("plans[0].document.ranks_per_device: is 2")) << report.refused.front();
  EXPECT_TRUE(open_new(directory / "old.db").import_json(nameless.dump()).value().refused.empty());
}

TEST(Transfer, BadImportChangesNothing) {
  const TemporaryDirectory directory;
  Store from = open_new(directory / "from.db"), into = open_new(directory / "into.db");
  fill(from);
  const json good = json::parse(from.export_json().value());
  struct Case {
    const char* pointer;
    json value;
    ErrorCode code;
    const char* field;
  };
  const Case cases[] = {{"/schema", "mc2.store/2", ErrorCode::NewerVersion, "schema"},
                        {"/schema", "mc2.plan/1", ErrorCode::Malformed, "schema"},
                        {"/extra", 1, ErrorCode::Malformed, ""},
                        {"/plans/0/purpose", 7, ErrorCode::Malformed, "plans[0].purpose"},
                        {"/models/0/created_at", 7, ErrorCode::Malformed, "models[0].created_at"},
                        {"/models/0/created_at", "banana", ErrorCode::Malformed, "models[0].created_at"},
                        {"/models/0/created_at", " 026- 1- 1", ErrorCode::Malformed, "models[0].created_at"},
                        {"/models/0/created_at", "-999-01-01", ErrorCode::Malformed, "models[0].created_at"},
                        {"/plans/0/created_at", "2026-13-45T99:99:99Z", ErrorCode::Malformed, "plans[0].created_at"}};
  for (const Case& bad : cases) {
    json document = good;
    document[json::json_pointer(bad.pointer)] = bad.value;
    const auto report = into.import_json(document.dump());
    ASSERT_FALSE(report.ok()) << bad.pointer;
    EXPECT_EQ(report.error().code, bad.code) << report.error().text();
    EXPECT_EQ(report.error().field, bad.field) << report.error().text();
  }
  const std::string text = from.export_json().value();
  EXPECT_EQ(into.import_json(text.substr(0, text.size() - 1)).error().code, ErrorCode::Malformed);
  EXPECT_EQ(into.export_json().value(), open_new(directory / "empty.db").export_json().value());
}

} // namespace
} // namespace mc2::store::transfer_test
