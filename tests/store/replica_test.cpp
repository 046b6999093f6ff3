#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "examples.hpp"
#include "mc2/store/backup.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "place.hpp"
#include "raw_sql.hpp"

namespace mc2::store::replica_test {
namespace {

namespace fs = std::filesystem;
using examples::kNow;
using place::TemporaryDirectory;

constexpr const char* kLeader = "http://leader:8471";

/// A leader's store, and a replica's store that follows it.
struct Pair {
  TemporaryDirectory directory;
  Store leader = Store::open(directory / "leader.db", OpenMode::ReadWrite).value();
  Store replica = Store::open(directory / "replica.db", OpenMode::ReadWrite).value();
  int snapshot_count = 0;

  void take_snapshot() {
    const fs::path snapshot = directory / ("snapshot" + std::to_string(snapshot_count++));
    ASSERT_TRUE(store::take_snapshot(directory / "leader.db", snapshot).ok());
    const auto taken = replica.become_replica(kLeader, snapshot);
    ASSERT_TRUE(taken.ok()) << taken.error().text();
  }
  /// Applies the leader's changes as the documents that services send.
  void catch_up() {
    const Position since = replica.position().value();
    const auto changes = decode_changes(encode(leader.rows_since(since).value()));
    ASSERT_TRUE(changes.ok()) << changes.error().text();
    const auto applied = replica.apply(since.revision, changes.value());
    ASSERT_TRUE(applied.ok()) << applied.error().text();
  }
};

/// Everything that answers, listings and followers depend on.
std::string content_of(const Store& store) {
  std::string text = digest(store.export_json().value()) + "\n";
  for (const StoredFingerprint& machine : store.list_fingerprints().value())
    text += machine.digest + " " + std::to_string(machine.revision) + "\n";
  const auto add = [&](const std::vector<Listed>& rows) {
    for (const Listed& row : rows) text += std::to_string(row.row_id) + " " + row.digest + " " + row.created_at + "\n";
  };
  add(store.list_plans({}).value());
  add(store.list_models({}).value());
  add(store.list_samples({}).value());
  add(store.list_measurements({}).value());
  return text + std::to_string(store.revision().value());
}

planner::Fingerprint machine_of(int number) {
  planner::Fingerprint fingerprint = examples::fingerprint();
  fingerprint.fields["device"] = "device " + std::to_string(number);
  return fingerprint;
}

/// Makes one change or several, of a random kind.
void change_somehow(Store& store, std::minstd_rand& random) {
  const planner::Fingerprint machine = machine_of(static_cast<int>(random() % 3));
  const std::string now = "2026-01-0" + std::to_string(1 + random() % 9) + "T00:00:00Z";
  switch (random() % 9) {
    case 0:
    case 1:
    case 2: {
      planner::Plan plan = examples::plan();
      plan.fingerprint = machine;
      ASSERT_TRUE(store.put_plan(plan, random() % 2 == 0 ? "tuned" : "other", now).ok());
      break;
    }
    case 3: {
      planner::CostModel model = examples::model();
      model.fingerprint = machine;
      ASSERT_TRUE(store.put_model(model, now).ok());
      break;
    }
    case 4: {
      const planner::Profile profile = examples::profile();
      ASSERT_TRUE(store.append_samples(profile.op, machine, profile.samples, now).ok());
      break;
    }
    case 5: ASSERT_TRUE(store.add_measurement(machine, examples::measurement(), now).ok()); break;
    case 6:
      if (const auto plans = store.list_plans({}).value(); !plans.empty()) {
        ASSERT_TRUE(store.remove_plan(plans[random() % plans.size()].digest).ok());
      }
      break;
    case 7: ASSERT_TRUE(store.replace_samples(examples::profile().op, machine, {}, now).ok()); break;
    default: ASSERT_TRUE(store.remove_measurements_before("2026-01-05T00:00:00Z").ok());
  }
}

TEST(Replica, IsItsLeaderWheneverItHasCaughtUp) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Pair pair;
    std::minstd_rand random(seed);
    for (std::size_t i = random() % 5; i > 0; --i) change_somehow(pair.leader, random);
    pair.take_snapshot();
    for (int round = 0; round < 12; ++round) {
      for (std::size_t i = random() % 8; i > 0; --i) change_somehow(pair.leader, random);
      const auto since = pair.replica.revision().value();
      pair.catch_up();
      ASSERT_EQ(content_of(pair.replica), content_of(pair.leader)) << "seed " << seed << ", round " << round;
      EXPECT_EQ(pair.replica.changes_since(since, 1000).value(), pair.leader.changes_since(since, 1000).value());
    }
    EXPECT_TRUE(pair.replica.check().is_healthy);
    for (int i = 0; i < 3; ++i) change_somehow(pair.leader, random);
    pair.take_snapshot();
    EXPECT_EQ(content_of(pair.replica), content_of(pair.leader));
  }
}

TEST(Replica, IsChangedByItsLeaderAlone) {
  Pair pair;
  pair.take_snapshot();
  const auto expect_refused = [](const auto& result) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::ReadOnly);
    EXPECT_NE(result.error().message.find(std::string("is a replica of ") + kLeader), std::string::npos)
        << result.error().text();
  };
  const planner::Profile profile = examples::profile();
  expect_refused(pair.replica.put_plan(examples::plan(), "tuned", kNow));
  expect_refused(pair.replica.put_model(examples::model(), kNow));
  expect_refused(pair.replica.append_samples(profile.op, profile.fingerprint, profile.samples, kNow));
  expect_refused(pair.replica.replace_samples(profile.op, profile.fingerprint, {}, kNow));
  expect_refused(pair.replica.add_measurement(examples::fingerprint(), examples::measurement(), kNow));
  expect_refused(pair.replica.remove_models_before(kNow));
  expect_refused(pair.replica.import_json(pair.leader.export_json().value()));
  EXPECT_EQ(pair.replica.leader().value(), kLeader);
  EXPECT_EQ(pair.leader.leader().value(), "");

  ASSERT_TRUE(pair.replica.stop_following().ok());
  EXPECT_EQ(pair.replica.leader().value(), "");
  EXPECT_TRUE(pair.replica.put_plan(examples::plan(), "tuned", kNow).ok()) << "its own now";
}

TEST(Replica, KeepsItsOwnTokensAndHistory) {
  Pair pair;
  const auto token_of = [](const std::string& name) {
    return make_token(Role::Read, name, std::nullopt, kNow).value().token;
  };
  ASSERT_TRUE(pair.leader.add_token(token_of("the leader's")).ok());
  ASSERT_TRUE(pair.leader.add_history({"2026-01-01T00:00:00Z", {{"gain", 0.5}}}).ok());
  const Token own = token_of("its own");
  const HistoryPoint point{"2026-01-02T00:00:00Z", {{"gain", 0.25}}};
  ASSERT_TRUE(pair.replica.add_token(own).ok());
  ASSERT_TRUE(pair.replica.add_history(point).ok());
  pair.take_snapshot();
  EXPECT_EQ(pair.replica.list_tokens().value().tokens, std::vector{own});
  EXPECT_EQ(pair.replica.history_after("", 10).value(), std::vector{point});
  ASSERT_TRUE(pair.replica.revoke_token(own.id, kNow).ok());
  EXPECT_EQ(pair.replica.revision().value(), pair.leader.revision().value()) << "tokens are no documents";
  ASSERT_TRUE(pair.leader.put_plan(examples::plan(), "tuned", kNow).ok());
  pair.catch_up();
  EXPECT_EQ(content_of(pair.replica), content_of(pair.leader));
  const std::string bytes = place::read_file(pair.directory / "snapshot0");
  EXPECT_EQ(bytes.find("the leader's"), std::string::npos)
      << "a snapshot tells nothing of tokens, not even in free pages";
}

TEST(Replica, NeverTakesThePlaceOfDocumentsOfItsOwn) {
  Pair pair;
  ASSERT_TRUE(pair.leader.put_model(examples::model(), kNow).ok());
  ASSERT_TRUE(pair.replica.put_plan(examples::plan(), "tuned", kNow).ok());
  const std::string before = content_of(pair.replica);
  ASSERT_TRUE(store::take_snapshot(pair.directory / "leader.db", pair.directory / "snapshot").ok());
  const auto refused = pair.replica.become_replica(kLeader, pair.directory / "snapshot");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("has documents of its own"), std::string::npos);
  EXPECT_EQ(content_of(pair.replica), before);
}

TEST(Replica, TakesOnlyWhatComesNext) {
  Pair pair;
  pair.take_snapshot();
  const auto since = pair.replica.revision().value();
  ASSERT_TRUE(pair.leader.put_plan(examples::plan(), "tuned", kNow).ok());
  ASSERT_TRUE(pair.leader.put_model(examples::model(), kNow).ok());
  const Changes changes = pair.leader.rows_since(pair.replica.position().value()).value();
  const auto before = content_of(pair.replica);
  EXPECT_EQ(pair.replica.apply(since + 1, changes).error().code, ErrorCode::Mismatch);
  EXPECT_EQ(pair.leader.apply(pair.leader.revision().value(), {{}, 100}).error().code, ErrorCode::Mismatch);
  Changes turned = changes;
  std::swap(turned.changes[0], turned.changes[1]);
  EXPECT_EQ(pair.replica.apply(since, turned).error().code, ErrorCode::Malformed);
  Changes bare = changes;
  bare.changes[1].row.reset();
  EXPECT_EQ(pair.replica.apply(since, bare).error().code, ErrorCode::Malformed);
  Changes beyond = changes;
  ++beyond.revision;
  EXPECT_EQ(pair.replica.apply(since, beyond).error().code, ErrorCode::Malformed);
  Changes homeless = changes;
  homeless.machines.clear();
  EXPECT_EQ(pair.replica.apply(since, homeless).error().code, ErrorCode::Malformed);
  EXPECT_EQ(content_of(pair.replica), before) << "all or nothing";
  EXPECT_TRUE(pair.replica.apply(since, changes).ok());
  EXPECT_EQ(pair.replica.apply(since, changes).error().code, ErrorCode::Mismatch) << "twice";
}

TEST(Replica, RowsOfMoreThanAMessageHoldsAreRefused) {
  Pair pair;
  const Position since = pair.leader.position().value();
  const planner::Profile profile = examples::profile();
  const std::vector<planner::Sample> many(5'000, profile.samples.front());
  ASSERT_TRUE(pair.leader.append_samples(profile.op, profile.fingerprint, many, kNow).ok());
  execute(pair.directory / "leader.db",
          "WITH RECURSIVE turn(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM turn WHERE i < 59) INSERT INTO "
          "sample_batch SELECT max(id) OVER () + turn.i, b.fingerprint_digest, b.kind, b.m, b.n, b.k, b.dtype, "
          "b.world_size, b.created_at, b.digest, b.document, b.checksum FROM sample_batch AS b, turn");
  const auto rows = pair.leader.rows_since(since);
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.error().code, ErrorCode::Stale);
  EXPECT_TRUE(pair.leader.rows_since(pair.leader.position().value()).ok());
}

TEST(Replica, NeverTakesAnotherStoresDocuments) {
  Pair pair;
  const auto put = [](Store& store, const std::string& purpose) {
    ASSERT_TRUE(store.put_plan(examples::plan(), purpose, kNow).ok());
  };
  put(pair.leader, "tuned");
  ASSERT_TRUE(back_up(pair.directory / "leader.db", pair.directory / "earlier.db").ok());
  put(pair.leader, "lost");
  pair.take_snapshot();
  Store restored = Store::open(pair.directory / "earlier.db", OpenMode::ReadWrite).value();
  const Position position = pair.replica.position().value();
  EXPECT_EQ(restored.rows_since(position).error().code, ErrorCode::Mismatch) << "it was never there";
  put(restored, "lost"); // the very same document under the same revision
  EXPECT_EQ(restored.position().value().revision, position.revision);
  EXPECT_EQ(restored.rows_since(position).error().code, ErrorCode::Mismatch) << "and yet another change";

  Store other = Store::open(pair.directory / "other.db", OpenMode::ReadWrite).value();
  for (int i = 0; i < 5; ++i) put(other, "other");
  const std::string before = content_of(pair.replica);
  ASSERT_TRUE(store::take_snapshot(pair.directory / "other.db", pair.directory / "of_other").ok());
  ASSERT_TRUE(store::take_snapshot(pair.directory / "leader.db", pair.directory / "hostile").ok());
  execute(pair.directory / "hostile", "CREATE TRIGGER planted AFTER INSERT ON replica BEGIN DELETE FROM token; END");
  const auto of_other = pair.replica.become_replica(kLeader, pair.directory / "of_other");
  ASSERT_FALSE(of_other.ok());
  EXPECT_EQ(of_other.error().code, ErrorCode::Mismatch) << of_other.error().text();
  EXPECT_EQ(pair.replica.become_replica(kLeader, pair.directory / "hostile").error().code, ErrorCode::Malformed);
  EXPECT_EQ(content_of(pair.replica), before);
  pair.take_snapshot();
  put(pair.leader, "tuned");
  pair.catch_up();
  EXPECT_EQ(content_of(pair.replica), content_of(pair.leader));
}

TEST(Replica, ADamagedDocumentIsLeftOut) {
  Pair pair;
  pair.take_snapshot();
  const std::string kept = pair.leader.put_plan(examples::plan(), "tuned", kNow).value();
  ASSERT_TRUE(pair.leader.put_model(examples::model(), kNow).ok());
  execute(pair.directory / "leader.db", "DROP TRIGGER plan_changed; UPDATE plan SET document = char(1) || document");
  pair.catch_up();
  EXPECT_EQ(pair.replica.find_plan(kept).error().code, ErrorCode::NotFound);
  EXPECT_EQ(pair.replica.list_models({}).value().size(), 1U);
  EXPECT_EQ(pair.replica.position().value(), pair.leader.position().value());
}

} // namespace
} // namespace mc2::store::replica_test
