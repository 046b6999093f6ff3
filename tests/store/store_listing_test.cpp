#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "examples.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "place.hpp"
#include "raw_sql.hpp"

namespace mc2::store::store_listing_test {
namespace {

using examples::kNow;
using place::TemporaryDirectory;

Store open_new(const TemporaryDirectory& directory) {
  return Store::open(directory / "mc2.db", OpenMode::ReadWrite).value();
}

std::vector<std::int64_t> sizes(const Result<std::vector<Listed>>& listed) {
  std::vector<std::int64_t> result;
  for (const Listed& one : listed.value()) result.push_back(one.key.op.m);
  return result;
}

TEST(StoreListing, PagesThroughPlansNewestFirst) {
  const TemporaryDirectory directory;
  Store store = open_new(directory);
  for (const std::int64_t m : {256, 384, 512, 640, 768})
    ASSERT_TRUE(store.put_plan(examples::plan(m), "tuned", kNow).ok());
  const auto first = store.list_plans({.limit = 2});
  EXPECT_EQ(sizes(first), (std::vector<std::int64_t>{768, 640}));
  const auto second = store.list_plans({.before_row = first.value().back().row_id, .limit = 2});
  EXPECT_EQ(sizes(second), (std::vector<std::int64_t>{512, 384}));
  const auto last = store.list_plans({.before_row = second.value().back().row_id, .limit = 2});
  EXPECT_EQ(sizes(last), (std::vector<std::int64_t>{256}));
  EXPECT_EQ(first.value().front().digest, digest(encode(examples::plan(768))));
}

TEST(StoreListing, FiltersByEveryPartOfTheKey) {
  const TemporaryDirectory directory;
  Store store = open_new(directory);
  planner::Plan other = examples::plan(512, "another");
  other.op.world_size = 2 * other.op.world_size;
  for (const auto& plan : {examples::plan(256), examples::plan(512), other})
    ASSERT_TRUE(store.put_plan(plan, "tuned", kNow).ok());
  const planner::OpSpec& op = other.op;
  EXPECT_EQ(store.list_plans({.m = 512}).value().size(), 2U);
  EXPECT_EQ(store.list_plans({.kind = op.kind, .n = op.n, .k = op.k, .dtype = op.dtype}).value().size(), 3U);
  EXPECT_EQ(store.list_plans({.world_size = op.world_size}).value().size(), 1U);
  EXPECT_EQ(store.list_plans({.fingerprint_digest = digest(other.fingerprint)}).value().size(), 1U);
  EXPECT_TRUE(store.list_plans({.kind = planner::OpKind::AllToAllMatmul}).value().empty());
}

TEST(StoreListing, LeavesOutWhatIsDamaged) {
  const TemporaryDirectory directory;
  {
    Store store = open_new(directory);
    for (const std::int64_t m : {256, 512}) ASSERT_TRUE(store.put_plan(examples::plan(m), "tuned", kNow).ok());
  }
  execute(directory / "mc2.db", "UPDATE plan SET n = n + 1 WHERE m = 256");
  EXPECT_EQ(sizes(open_new(directory).list_plans(ListFilter{})), (std::vector<std::int64_t>{512}));
}

TEST(StoreListing, FindsAModelByItsDigest) {
  const TemporaryDirectory directory;
  Store store = open_new(directory);
  const planner::CostModel model = examples::model();
  const std::string kept = store.put_model(model, kNow).value();
  const auto found = store.find_model(kept.substr(0, 8));
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(found.value().model, model);
  EXPECT_EQ(found.value().document, encode(model));
  EXPECT_EQ(store.list_models(ListFilter{}).value().front().digest, kept);
  EXPECT_EQ(store.find_model("ffffffff").error().code, ErrorCode::NotFound);
  EXPECT_EQ(store.find_model("xyz").error().code, ErrorCode::InvalidSpec);
}

TEST(StoreListing, RemovedPlanIsGone) {
  const TemporaryDirectory directory;
  Store store = open_new(directory);
  const std::string kept = store.put_plan(examples::plan(), "tuned", kNow).value();
  ASSERT_TRUE(store.remove_plan(kept).ok());
  EXPECT_EQ(store.find_plan(kept).error().code, ErrorCode::NotFound);
  EXPECT_EQ(store.remove_plan(kept).error().code, ErrorCode::NotFound);
}

TEST(StoreListing, RevisionRisesWithEveryChangeOfAnyConnection) {
  const TemporaryDirectory directory;
  Store one = open_new(directory), two = open_new(directory);
  std::int64_t last = one.revision().value();
  const auto expect_risen = [&] {
    const std::int64_t now = one.revision().value();
    EXPECT_GT(now, last);
    last = now;
  };
  const std::string kept = two.put_plan(examples::plan(), "tuned", kNow).value();
  expect_risen();
  ASSERT_TRUE(two.put_plan(examples::plan(), "tuned", kNow).ok());
  EXPECT_EQ(one.revision().value(), last) << "the very same plan is no change";
  ASSERT_TRUE(one.put_model(examples::model(), kNow).ok());
  expect_risen();
  ASSERT_TRUE(two.remove_plan(kept).ok());
  expect_risen();
  ASSERT_TRUE(two.add_measurement(examples::fingerprint(), examples::measurement(), kNow).ok());
  expect_risen();
  EXPECT_EQ(one.revision().value(), last) << "reading changes nothing";
}

TEST(StoreListing, ChangesTellWhatBecameOfEveryDocument) {
  const TemporaryDirectory directory;
  Store one = open_new(directory), two = open_new(directory);
  const auto since = one.revision().value();
  const planner::Profile profile = examples::profile();
  const std::string plan = two.put_plan(examples::plan(), "tuned", kNow).value();
  const std::string model = two.put_model(examples::model(), kNow).value();
  const std::string samples =
      two.append_samples(profile.op, profile.fingerprint, profile.samples, kNow).value().front();
  const std::string run = two.add_measurement(examples::fingerprint(), examples::measurement(), kNow).value();
  ASSERT_TRUE(two.put_plan(examples::plan(), "tuned", kNow).ok()); // the very same plan is no change
  ASSERT_TRUE(two.remove_plan(plan).ok());
  ASSERT_TRUE(two.remove_batch(samples).ok());

  const Changes all = one.changes_since(since, 100).value();
  std::string told;
  for (const Change& change : all.changes)
    told += (change.is_removal ? " -" : " +") + change.document + ":" + change.purpose + ":" + change.digest;
  EXPECT_EQ(told, " +plan:tuned:" + plan + " +model::" + model + " +samples::" + samples + " +measurement::" + run +
                      " -plan:tuned:" + plan + " -samples::" + samples);
  EXPECT_EQ(all.revision, one.revision().value());
  EXPECT_EQ(all.changes.front().op, examples::plan().op);
  EXPECT_EQ(all.changes.front().fingerprint_digest, digest(examples::fingerprint()));
  EXPECT_EQ(decode_changes(encode(all)).value(), all);

  const Changes first = one.changes_since(since, 3).value();
  EXPECT_EQ(first.changes.size(), 3U);
  EXPECT_EQ(first.revision, first.changes.back().revision) << "where to go on";
  EXPECT_EQ(one.changes_since(first.revision, 100).value().changes.size(), 3U);
  const Changes none = one.changes_since(all.revision, 100).value();
  EXPECT_TRUE(none.changes.empty());
  EXPECT_EQ(none.revision, all.revision);
}

TEST(StoreListing, ChangesOfLongAgoOrOfAnotherStoreAreRefused) {
  const TemporaryDirectory directory;
  Store store = open_new(directory);
  const auto first = store.revision().value();
  EXPECT_EQ(store.changes_since(first - 1, 10).error().code, ErrorCode::Stale) << "before they were taken note of";
  EXPECT_TRUE(store.changes_since(first, 10).value().changes.empty());
  EXPECT_EQ(store.changes_since(first + 1, 10).error().code, ErrorCode::Stale) << "never reached";
  const std::string kept = store.put_plan(examples::plan(), "tuned", kNow).value();
  execute(directory / "mc2.db",
          "WITH RECURSIVE turn(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM turn WHERE i < 16400) "
          "INSERT OR REPLACE INTO plan SELECT p.* FROM plan AS p, turn");
  const auto now = store.revision().value();
  EXPECT_EQ(store.changes_since(first, 10).error().code, ErrorCode::Stale);
  const Changes last = store.changes_since(now - 2, 10).value();
  ASSERT_EQ(last.changes.size(), 2U);
  EXPECT_EQ(last.changes.back().digest, kept);
  EXPECT_EQ(store.changes_since(now - 16'383, 20'000).value().changes.size(), 16'383U) << "as many are kept";
}

TEST(StoreListing, HistoryIsKeptInItsOrderAndBounded) {
  const TemporaryDirectory directory;
  Store store = open_new(directory);
  const auto revision = store.revision().value();
  const HistoryPoint first{"2026-01-01T00:00:00Z", {{"gain", 0.25}, {"questions", 7}}};
  const HistoryPoint second{"2026-01-01T00:05:00Z", {{"questions", 9}}};
  ASSERT_TRUE(store.add_history(second).ok());
  ASSERT_TRUE(store.add_history(first).ok());
  ASSERT_TRUE(store.add_history(second).ok()); // added a second time
  EXPECT_EQ(store.history_after("", 10).value(), (std::vector{first, second}));
  EXPECT_EQ(store.history_after("", 1).value(), std::vector{second}) << "the newest";
  EXPECT_EQ(store.history_after(first.moment, 10).value(), std::vector{second});
  EXPECT_EQ(encode(std::vector{first}),
            R"({"points":[{"moment":"2026-01-01T00:00:00Z","numbers":{"gain":0.25,"questions":7.0}}],)"
            R"("schema":"mc2.history/1"})");
  EXPECT_EQ(store.revision().value(), revision) << "no document has changed";
  execute(directory / "mc2.db",
          "WITH RECURSIVE turn(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM turn WHERE i < 8200) "
          "INSERT INTO history SELECT printf('2027-%08d', i), '{\"x\": \"no number\"}' FROM turn");
  const auto last = store.history_after("", 10'000).value();
  ASSERT_EQ(last.size(), 8192U);
  EXPECT_EQ(last.back().moment, "2027-00008200");
  EXPECT_TRUE(last.back().numbers.empty());
}

TEST(StoreListing, NamesEveryMachine) {
  const TemporaryDirectory directory;
  Store store = open_new(directory);
  const planner::Plan other = examples::plan(256, "another");
  for (const auto& plan : {examples::plan(), other}) ASSERT_TRUE(store.put_plan(plan, "tuned", kNow).ok());
  const auto listed = store.list_fingerprints().value();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[1].fingerprint, other.fingerprint);
  EXPECT_EQ(listed[1].digest, digest(other.fingerprint));
}

} // namespace
} // namespace mc2::store::store_listing_test
