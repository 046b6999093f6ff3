#include "mc2/store/store.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "examples.hpp"
#include "mc2/store/codec.hpp"
#include "place.hpp"
#include "raw_sql.hpp"

namespace mc2::store::store_test {
namespace {

namespace fs = std::filesystem;
using examples::key_of;
using examples::kNow;
using place::TemporaryDirectory;

Store open_new(const fs::path& path) { return Store::open(path, OpenMode::ReadWrite).value(); }

template <typename T>
void expect_error(const Result<T>& result, ErrorCode code, const std::string& part) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, code) << result.error().text();
  EXPECT_NE(result.error().text().find(part), std::string::npos) << result.error().text();
  EXPECT_EQ(result.error().text().find('\n'), std::string::npos) << result.error().text();
}

int mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return static_cast<int>(status.st_mode & 0777);
}

TEST(Store, CreatesPrivateFileAndDirectories) {
  const TemporaryDirectory directory;
  const Store store = open_new(directory / "a/b/mc2.db");
  EXPECT_EQ(mode_of(directory / "a"), 0700);
  EXPECT_EQ(mode_of(directory / "a/b"), 0700);
  EXPECT_EQ(mode_of(directory / "a/b/mc2.db"), 0600);
  EXPECT_TRUE(store.check().is_healthy);
  EXPECT_EQ(store.stats().value().schema_version, 7);
}

TEST(Store, UsesARollbackJournalAndLeavesNoneBehind) {
  const TemporaryDirectory directory;
  {
    Store store = open_new(directory / "mc2.db");
    ASSERT_TRUE(store.put_plan(examples::plan(), "tuned", kNow).ok());
  }
  EXPECT_FALSE(fs::exists(directory / "mc2.db-journal"));
  EXPECT_FALSE(fs::exists(directory / "mc2.db-wal"));
  // Bytes 18 and 19 of the header: 1 for a rollback journal, 2 for WAL (sqlite.org/fileformat2.html).
  EXPECT_EQ(place::read_file(directory / "mc2.db").substr(18, 2), "\x01\x01");
}

TEST(Store, KeptPlanComesBackByteForByte) {
  const TemporaryDirectory directory;
  const planner::Plan plan = examples::plan();
  const std::string kept_digest = open_new(directory / "mc2.db").put_plan(plan, "tuned", kNow).value();
  for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::ReadWrite}) {
    const Store store = Store::open(directory / "mc2.db", mode).value();
    const auto found = store.find_plan(key_of(plan));
    ASSERT_TRUE(found.ok()) << found.error().text();
    EXPECT_EQ(found.value().document, encode(plan));
    EXPECT_EQ(found.value().plan, plan);
    EXPECT_EQ(found.value().digest, kept_digest);
    EXPECT_EQ(found.value().digest, digest(encode(plan)));
    EXPECT_EQ(found.value().key, key_of(plan));
    EXPECT_EQ(found.value().created_at, kNow);
  }
}

TEST(Store, LaterPlanReplacesTheEarlierUnderTheSameKey) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  planner::Plan plan = examples::plan();
  ASSERT_TRUE(store.put_plan(plan, "tuned", kNow).ok());
  plan.reason = "measured again";
  ASSERT_TRUE(store.put_plan(plan, "tuned", kNow).ok());
  EXPECT_EQ(store.find_plan(key_of(plan)).value().plan.reason, "measured again");
  EXPECT_EQ(store.stats().value().plan_count, 1);
}

TEST(Store, TheSamePlanAgainIsNoChangeAndKeepsItsDate) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const planner::Plan plan = examples::plan();
  const std::string kept = store.put_plan(plan, "tuned", kNow).value();
  const std::int64_t revision = store.revision().value();
  EXPECT_EQ(store.put_plan(plan, "tuned", "2099-01-01T00:00:00Z").value(), kept);
  EXPECT_EQ(store.revision().value(), revision);
  EXPECT_EQ(store.find_plan(key_of(plan)).value().created_at, kNow);
  ASSERT_TRUE(store.put_plan(plan, "nightly", kNow).ok()) << "another purpose is another document";
  EXPECT_GT(store.revision().value(), revision);
}

TEST(Store, TheSameModelAgainIsNoChangeUnlessSamplesAreNewer) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const planner::CostModel model = examples::model();
  ASSERT_TRUE(store.put_model(model, "2026-06-01T10:00:00Z").ok());
  const std::int64_t revision = store.revision().value();
  ASSERT_TRUE(store.put_model(model, "2026-06-01T11:00:00Z").ok());
  EXPECT_EQ(store.revision().value(), revision);
  const planner::Sample sample = examples::sample(0);
  ASSERT_TRUE(store.append_samples(model.op, model.fingerprint, {&sample, 1}, "2026-06-05T10:00:00Z").ok());
  const std::string digest = store.put_model(model, "2026-06-05T11:00:00Z").value();
  EXPECT_EQ(store.find_model(digest).value().created_at, "2026-06-05T11:00:00Z");
}

TEST(Store, PurposesAndFingerprintsAreSeparateKeys) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const planner::Plan here = examples::plan(), there = examples::plan(1024, "Other CPU");
  ASSERT_TRUE(store.put_plan(here, "tuned", kNow).ok());
  ASSERT_TRUE(store.put_plan(here, "0123abcd", kNow).ok());
  ASSERT_TRUE(store.put_plan(there, "tuned", kNow).ok());
  EXPECT_EQ(store.stats().value().plan_count, 3);
  EXPECT_EQ(store.stats().value().fingerprint_count, 2);
  EXPECT_EQ(store.find_plan(key_of(there)).value().plan, there);
  expect_error(store.find_plan(key_of(there, "0123abcd")), ErrorCode::NotFound, "has no 0123abcd plan for");
}

TEST(Store, NothingOfASharedDeviceIsKept) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  planner::Plan plan = examples::plan();
  plan.fingerprint.fields["ranks_per_device"] = "2";
  const char* const reason = "is 2: ranks that share a device";
  expect_error(store.put_plan(plan, "tuned", kNow), ErrorCode::Unsupported, reason);
  const auto samples = examples::profile().samples;
  expect_error(store.append_samples(plan.op, plan.fingerprint, samples, kNow), ErrorCode::Unsupported, reason);
  const std::string exported = R"({"schema":"mc2.store/1","damages":[],"measurements":[],"models":[],"samples":[],)"
                               R"("plans":[{"created_at":")" +
                               std::string(kNow) + R"(","purpose":"tuned","document":)" + encode(plan) + "}]}";
  const auto imported = store.import_json(exported);
  ASSERT_TRUE(imported.ok()) << imported.error().text();
  ASSERT_EQ(imported.value().refused.size(), 1U);
  EXPECT_NE(imported.value().refused[0].find(reason), std::string::npos) << imported.value().refused[0];
  EXPECT_TRUE(store.list_plans().value().empty());
}

TEST(Store, PurposesThatAnExportCouldNotCarryAreNotKept) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const planner::Plan plan = examples::plan();
  for (const std::string& purpose :
       {std::string("line\nbreak"), std::string("\x1b[2J"), std::string("c1 \xc2\x9b"), std::string("nul\0", 4)}) {
    expect_error(store.put_plan(plan, purpose, kNow), ErrorCode::InvalidSpec, "control characters");
    EXPECT_EQ(store.put_plan(plan, purpose, kNow).error().field, "purpose");
  }
  expect_error(store.put_plan(plan, "bad \xff byte", kNow), ErrorCode::InvalidSpec, "not UTF-8");
  EXPECT_EQ(store.put_plan(plan, "bad \xff byte", kNow).error().field, "purpose");
  EXPECT_TRUE(store.put_plan(plan, "served by http://m\u00fcnchen:8471", kNow).ok());
  EXPECT_EQ(store.stats().value().plan_count, 1);
}

TEST(Store, MissingPlanNamesWhatTheStoreHas) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  expect_error(store.find_plan(key_of(examples::plan())), ErrorCode::NotFound, "it has none at all");
  ASSERT_TRUE(store.put_plan(examples::plan(4096), "served by http://plans:8471", kNow).ok());
  expect_error(store.find_plan(key_of(examples::plan())), ErrorCode::NotFound, "it has none at all");
  ASSERT_TRUE(store.put_plan(examples::plan(2048), "tuned", kNow).ok());
  expect_error(store.find_plan(key_of(examples::plan())), ErrorCode::NotFound,
               "for this machine it has matmul_all_reduce m=2048 n=512 k=256 f32 x2");
  expect_error(store.find_plan(key_of(examples::plan(2048, "Other CPU"))), ErrorCode::NotFound,
               "only for other machines, links or versions it has matmul_all_reduce m=2048");
  ASSERT_TRUE(store.put_plan(examples::plan(), "nightly", kNow).ok());
  expect_error(store.find_plan(key_of(examples::plan())), ErrorCode::NotFound, "it has plans of it as nightly");
}

TEST(Store, DigestPrefixFindsOnePlanOrSaysWhyNot) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const std::string kept = store.put_plan(examples::plan(), "tuned", kNow).value();
  EXPECT_EQ(store.find_plan(kept).value().digest, kept);
  EXPECT_EQ(store.find_plan(kept.substr(0, 6)).value().digest, kept);
  expect_error(store.find_plan(kept.substr(0, 5)), ErrorCode::InvalidSpec, "6 to 64 hexadecimal digits");
  expect_error(store.find_plan(std::string("xyzxyz")), ErrorCode::InvalidSpec, "6 to 64 hexadecimal digits");
  const std::string absent = (kept[0] == '0' ? "1" : "0") + kept.substr(1, 7);
  expect_error(store.find_plan(absent), ErrorCode::NotFound, absent);
}

TEST(Store, AmbiguousDigestPrefixIsRefused) {
  const TemporaryDirectory directory;
  std::string kept;
  {
    Store store = open_new(directory / "mc2.db");
    kept = store.put_plan(examples::plan(), "tuned", kNow).value();
    ASSERT_TRUE(store.put_plan(examples::plan(2048), "tuned", kNow).ok());
  }
  // No two real digests are known to share six digits, so one is forged.
  execute(directory / "mc2.db",
          "UPDATE plan SET digest = '" + kept.substr(0, 8) + "' || substr(digest, 9) WHERE m = 2048");
  expect_error(open_new(directory / "mc2.db").find_plan(kept.substr(0, 8)), ErrorCode::InvalidSpec, "is ambiguous");
}

TEST(Store, PlansAreListedNewestFirst) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  ASSERT_TRUE(store.put_plan(examples::plan(256), "tuned", "2025-01-02T00:00:00Z").ok());
  ASSERT_TRUE(store.put_plan(examples::plan(512), "tuned", "2025-01-03T00:00:00Z").ok());
  ASSERT_TRUE(store.put_plan(examples::plan(768), "tuned", "2025-01-01T00:00:00Z").ok());
  const auto plans = store.list_plans().value();
  ASSERT_EQ(plans.size(), 3U);
  EXPECT_EQ(plans[0].plan.op.m, 512);
  EXPECT_EQ(plans[1].plan.op.m, 256);
  EXPECT_EQ(plans[2].plan.op.m, 768);
}

TEST(Store, SamplesAccumulateInOrderUntilRemoved) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const auto op = examples::op();
  const auto fingerprint = examples::fingerprint();
  std::vector<planner::Sample> samples;
  for (int round = 0; round < 25'000; ++round) samples.push_back(examples::sample(round));
  const std::span<const planner::Sample> all(samples);
  ASSERT_TRUE(store.append_samples(op, fingerprint, all.first(10), kNow).ok());
  ASSERT_TRUE(store.append_samples(op, fingerprint, all.subspan(10), kNow).ok());
  ASSERT_TRUE(store.append_samples(op, fingerprint, {}, kNow).ok());
  EXPECT_EQ(store.find_profile(op, fingerprint).value(), (planner::Profile{op, fingerprint, samples}));
  EXPECT_EQ(store.list_profiles(fingerprint.fields).value(),
            (std::vector<planner::Profile>{{op, fingerprint, samples}}))
      << "one session, although it is kept in several batches";
  EXPECT_EQ(store.stats().value().sample_count, 25'000);
  ASSERT_TRUE(store.replace_samples(op, fingerprint, {}, kNow).ok());
  expect_error(store.find_profile(op, fingerprint), ErrorCode::NotFound, "has no samples for matmul_all_reduce m=1024");
}

/// An import's samples come in the order of their sizes, so each size begins with round 0 again.
TEST(Store, SamplesThatAreKeptTogetherAreOneSession) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const auto op = examples::op();
  const auto fingerprint = examples::fingerprint();
  std::vector<planner::Sample> samples;
  for (int i = 0; i < 12'000; ++i) samples.push_back(examples::sample(i % 6'000));
  ASSERT_TRUE(store.append_samples(op, fingerprint, samples, kNow).ok());
  EXPECT_EQ(store.find_profile(op, fingerprint).value().samples, samples);
  EXPECT_EQ(store.list_profiles(fingerprint.fields).value().size(), 1U);
  ASSERT_TRUE(store.append_samples(op, fingerprint, std::span(samples).first(2), kNow).ok());
  EXPECT_EQ(store.list_profiles(fingerprint.fields).value().size(), 2U);
}

/// Rounds count from 0 in every session. Samples that are pushed, imported or merged come from another session, on a
/// machine of another speed, and must not share its rounds.
TEST(Store, RoundsOfTwoSessionsStayApart) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const auto op = examples::op();
  const auto fingerprint = examples::fingerprint();
  const std::vector<planner::Sample> session{examples::sample(0), examples::sample(1)};
  const std::vector<planner::Sample> resumed{examples::sample(2)};
  for (const auto& one : {session, resumed, session})
    ASSERT_TRUE(store.append_samples(op, fingerprint, one, kNow).ok());
  const auto profile = store.find_profile(op, fingerprint).value();
  std::vector<int> rounds;
  for (const planner::Sample& sample : profile.samples) rounds.push_back(sample.round);
  EXPECT_EQ(rounds, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(Store, KeepsTheSameSamplesOnceWhereAsked) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const auto profile = examples::profile();
  const auto add = [&] {
    return store.add_new_samples(profile.op, profile.fingerprint, profile.samples, kNow).value();
  };
  const auto first = add(), again = add();
  EXPECT_EQ(first.digests, again.digests);
  EXPECT_EQ(first.new_count, 1U);
  EXPECT_EQ(again.new_count, 0U);
  EXPECT_EQ(store.find_profile(profile.op, profile.fingerprint).value().samples, profile.samples);
  // A damaged batch does not count as kept.
  execute(directory / "mc2.db", "UPDATE sample_batch SET document = '{}'");
  EXPECT_EQ(add().new_count, 1U);
  EXPECT_TRUE(store.find_samples(first.digests[0]).ok());
}

TEST(Store, DatesSamplesAfterTheirModelThoughTheClockStepsBack) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const auto model = examples::model();
  ASSERT_TRUE(store.put_model(model, "2026-06-01T23:59:59Z").ok());
  const auto profile = examples::profile();
  const planner::Sample& sample = profile.samples.front();
  const auto kept = store.append_samples(model.op, model.fingerprint, {&sample, 1}, "2026-06-01T08:00:00Z").value();
  EXPECT_EQ(store.find_samples(kept[0]).value().created_at, "2026-06-02T00:00:00Z");
  // A model that is made from these samples is not dated before them.
  const auto digest = store.put_model(model, "2026-06-01T08:00:01Z").value();
  EXPECT_EQ(store.find_model(digest).value().created_at, "2026-06-02T00:00:00Z");
  // A date more than a day ahead is wrong, as no clock steps back so far, and is ignored.
  const auto odd = examples::model(4096);
  ASSERT_TRUE(store.put_model(odd, "2036-01-01T00:00:00Z").ok());
  const auto later = store.append_samples(odd.op, odd.fingerprint, {&sample, 1}, "2026-06-10T00:00:00Z").value();
  EXPECT_EQ(store.find_samples(later[0]).value().created_at, "2026-06-10T00:00:00Z");
}

TEST(Store, ReplacedSamplesTakeThePlaceOfAllEarlierOnes) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const auto op = examples::op();
  const auto fingerprint = examples::fingerprint();
  const std::vector<planner::Sample> earlier{examples::sample(0), examples::sample(1)};
  std::vector<planner::Sample> marked{examples::sample(1)};
  marked.front().is_outlier = true;
  ASSERT_TRUE(store.append_samples(op, fingerprint, earlier, kNow).ok());
  ASSERT_TRUE(store.replace_samples(op, fingerprint, marked, kNow).ok());
  EXPECT_EQ(store.find_profile(op, fingerprint).value(), (planner::Profile{op, fingerprint, marked}));
}

TEST(Store, TheLatestDateIsOfAnyDocument) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  EXPECT_EQ(store.latest_date().value(), "");
  ASSERT_TRUE(
      store.append_samples(examples::op(), examples::fingerprint(), std::vector{examples::sample(0)}, kNow).ok());
  EXPECT_EQ(store.latest_date().value(), kNow);
  ASSERT_TRUE(store.put_model(examples::model(), "2093-12-24T10:00:00Z").ok());
  EXPECT_EQ(store.latest_date().value(), "2093-12-24T10:00:00Z");
}

TEST(Store, ProfilesAreListedByWhatTheirFingerprintsSay) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const planner::Fingerprint one{{{"backend", "imported"}, {"device", "a \"b\""}, {"nccl", "1"}}},
      two{{{"backend", "imported"}, {"device", "c"}}};
  const std::vector<planner::Sample> samples{examples::sample(0)};
  ASSERT_TRUE(store.append_samples(examples::op(), one, samples, kNow).ok());
  ASSERT_TRUE(store.append_samples(examples::op(2048), two, samples, kNow).ok());
  const auto listed = store.list_profiles({{"backend", "imported"}, {"device", "a \"b\""}}).value();
  EXPECT_EQ(listed, (std::vector{planner::Profile{examples::op(), one, samples}}));
  EXPECT_EQ(store.list_profiles({{"backend", "imported"}}).value().size(), 2U);
  EXPECT_TRUE(store.list_profiles({{"backend", "host"}}).value().empty());
}

TEST(Store, SamplesOfAnotherSizeOrMachineStayApart) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const auto profile = examples::profile();
  ASSERT_TRUE(store.append_samples(profile.op, profile.fingerprint, profile.samples, kNow).ok());
  expect_error(store.find_profile(examples::op(2048), profile.fingerprint), ErrorCode::NotFound, "m=1024");
  expect_error(store.find_profile(profile.op, examples::fingerprint("Other CPU")), ErrorCode::NotFound,
               "only for other machines");
}

TEST(Store, ModelAnswersForItsOperatorAndOtherRowCounts) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const auto fingerprint = examples::fingerprint();
  ASSERT_TRUE(store.put_model(examples::model(1024), "2025-01-01T00:00:00Z").ok());
  ASSERT_TRUE(store.put_model(examples::model(2048), "2025-01-03T00:00:00Z").ok());
  ASSERT_TRUE(store.put_model(examples::model(4096), "2025-01-02T00:00:00Z").ok());
  EXPECT_EQ(store.find_model(examples::op(1024), fingerprint).value(), examples::model(1024));
  // Blocks of up to 3000 rows were measured for m = 4096 only, and a shorter model counts as twice as far.
  EXPECT_EQ(store.find_model(examples::op(3000), fingerprint).value().op.m, 4096);
  EXPECT_EQ(store.find_model(examples::op(2400), fingerprint).value().op.m, 2048);
  EXPECT_EQ(store.find_model(examples::op(512), fingerprint).value().op.m, 1024);
  // Beyond all of them the largest extrapolates least.
  EXPECT_EQ(store.find_model(examples::op(8192), fingerprint).value().op.m, 4096);
  planner::OpSpec other = examples::op();
  other.n = 64;
  expect_error(store.find_model(other, fingerprint), ErrorCode::NotFound,
               "for this machine it has matmul_all_reduce m=1024");
}

TEST(Store, TablesOfAnOperatorAreAPartOfItsKey) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  planner::CostModel small = examples::model(), large = small;
  small.op = large.op = examples::pooled_op();
  large.op.tables->row_count *= 100;
  ASSERT_TRUE(store.put_model(small, kNow).ok());
  expect_error(store.find_model(large.op, large.fingerprint), ErrorCode::NotFound, "it has " + small.op.text());
  ASSERT_TRUE(store.put_model(large, kNow).ok());
  EXPECT_EQ(store.find_model(small.op, small.fingerprint).value(), small);
  EXPECT_EQ(store.find_model(large.op, large.fingerprint).value(), large);
  EXPECT_EQ(store.list_models(large.op, large.fingerprint).value(), std::vector{large});
  EXPECT_TRUE(store.check().is_healthy);
}

TEST(Store, ModelOfAnotherMachineIsNamedWithTheDifference) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  ASSERT_TRUE(store.put_model(examples::model(1024, "Other CPU"), kNow).ok());
  expect_error(store.find_model(examples::op(), examples::fingerprint()), ErrorCode::NotFound,
               "cpu_model: here 'Example CPU', there 'Other CPU'");
}

/// A model of 16 rows, which are cut along n.
planner::CostModel column_model(std::int64_t n) {
  planner::CostModel model = examples::model();
  model.op.m = 16;
  model.op.n = n;
  model.variants.front().compute.curve.axis = planner::CurveAxis::Columns;
  return model;
}

TEST(Store, ModelsOfRowsAndOfColumnsDoNotAnswerForEachOther) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const planner::CostModel rows = examples::model();
  ASSERT_TRUE(store.put_model(rows, kNow).ok());
  planner::OpSpec asked = rows.op;
  asked.m = 16;
  expect_error(store.find_model(asked, rows.fingerprint), ErrorCode::NotFound, "no cost model");
  ASSERT_TRUE(store.put_model(column_model(256), kNow).ok());
  ASSERT_TRUE(store.put_model(column_model(2048), kNow).ok());
  asked.n = 1000; // any n will do, and the next larger one comes first
  EXPECT_EQ(store.find_model(asked, rows.fingerprint).value(), column_model(2048));
  asked.m = 17;
  expect_error(store.find_model(asked, rows.fingerprint), ErrorCode::NotFound, "no cost model");
  asked = rows.op;
  asked.m = 100;
  EXPECT_EQ(store.find_model(asked, rows.fingerprint).value(), rows);
}

TEST(Store, OperatorsThatDifferInTheirEpilogueAreKeptApart) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  planner::Plan biased = examples::plan();
  biased.op.epilogue = {.has_bias = true, .has_residual = true};
  biased.reason = "of the biased one";
  ASSERT_TRUE(store.put_plan(examples::plan(), "tuned", kNow).ok());
  ASSERT_TRUE(store.put_plan(biased, "tuned", kNow).ok());
  EXPECT_EQ(store.find_plan(key_of(examples::plan())).value().plan, examples::plan());
  EXPECT_EQ(store.find_plan(key_of(biased)).value().plan, biased);
  EXPECT_TRUE(store.check().is_healthy);
}

TEST(Store, MeasurementsComeBackOldestFirst) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const auto fingerprint = examples::fingerprint();
  Measurement second = examples::measurement();
  second.fused_us = 92;
  ASSERT_TRUE(store.add_measurement(fingerprint, examples::measurement(), kNow).ok());
  ASSERT_TRUE(store.add_measurement(fingerprint, second, kNow).ok());
  EXPECT_EQ(store.list_measurements(examples::op(), fingerprint).value(),
            (std::vector<Measurement>{examples::measurement(), second}));
  EXPECT_TRUE(store.list_measurements(examples::op(2048), fingerprint).value().empty());
}

TEST(Store, SpeedRatiosAreOfTheNewestMeasurementsWithAPrediction) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const auto fingerprint = examples::fingerprint();
  Measurement predicted = examples::measurement();
  predicted.compute_us = 80;
  predicted.communication_us = 60;
  predicted.predicted_compute_us = 40;
  predicted.predicted_communication_us = 120;
  ASSERT_TRUE(store.add_measurement(fingerprint, predicted, kNow).ok());
  ASSERT_TRUE(store.add_measurement(fingerprint, examples::measurement(), kNow).ok()); // a run without a prediction
  predicted.compute_us = 20;
  ASSERT_TRUE(store.add_measurement(fingerprint, predicted, kNow).ok());
  const auto ratios = store.speed_record(examples::op(), fingerprint).value().ratios;
  ASSERT_EQ(ratios.size(), 2U);
  EXPECT_EQ(ratios.front().compute, 0.5);
  EXPECT_EQ(ratios.back().compute, 2);
  EXPECT_EQ(ratios.back().communication, 0.5);
  // Fused took 0.75 of serial; predicted were 90.5 of 160 us.
  EXPECT_DOUBLE_EQ(ratios.back().overlap, 0.75 * 160 / 90.5);
  EXPECT_DOUBLE_EQ(ratios.back().makespan, predicted.fused_us / 90.5);
  EXPECT_TRUE(store.speed_record(examples::op(), {}).value().ratios.empty());
  // predicted_serial_us is kept where the serial run was of another variant than the plan.
  predicted.predicted_serial_us = 150;
  ASSERT_TRUE(store.add_measurement(fingerprint, predicted, kNow).ok());
  EXPECT_DOUBLE_EQ(store.speed_record(examples::op(), fingerprint).value().ratios.front().overlap, 0.75 * 150 / 90.5);
  predicted.predicted_compute_us = predicted.predicted_communication_us = 0;
  EXPECT_EQ(store.add_measurement(fingerprint, predicted, kNow).error().field, "predicted_serial_us");
  predicted.predicted_compute_us = 40;
  EXPECT_EQ(store.add_measurement(fingerprint, predicted, kNow).error().code, ErrorCode::InvalidSpec);
}

TEST(Store, SpeedsOfAnEarlierDateAreOlderThoughTheyAreImportedLater) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const auto fingerprint = examples::fingerprint();
  Measurement one = examples::measurement();
  one.predicted_compute_us = one.predicted_communication_us = 40;
  for (const auto& [compute_us, date] :
       {std::pair{20.0, "2026-11-02T00:00:00Z"}, {80.0, "2026-05-01T00:00:00Z"}, {40.0, "2026-11-01T00:00:00Z"}}) {
    one.compute_us = compute_us;
    ASSERT_TRUE(store.add_measurement(fingerprint, one, date).ok());
  }
  const auto record = store.speed_record(examples::op(), fingerprint).value();
  ASSERT_EQ(record.ratios.size(), 3U);
  ASSERT_EQ(record.runs.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const double compute_us = std::array{20.0, 40.0, 80.0}[i];
    EXPECT_EQ(record.ratios[i].compute, compute_us / 40);
    EXPECT_EQ(record.runs[i].compute_us, compute_us);
  }
}

TEST(Store, SamplesThatAreKeptAlreadyKeepTheirDate) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const planner::Profile profile = examples::profile();
  const auto keep = [&](std::span<const planner::Sample> samples, const char* date) {
    ASSERT_TRUE(store.replace_samples(profile.op, profile.fingerprint, samples, date).ok());
  };
  const auto date = [&] { return store.list_samples({}).value().front().created_at; };
  keep(profile.samples, "2026-11-01T00:00:00Z");
  keep(profile.samples, "2026-11-02T00:00:00Z");
  EXPECT_EQ(date(), "2026-11-01T00:00:00Z");
  EXPECT_TRUE(store.list_samples({.created_after = "2026-11-01T00:00:00Z"}).value().empty());
  keep(std::span(profile.samples).first(profile.samples.size() - 1), "2026-11-03T00:00:00Z");
  EXPECT_EQ(date(), "2026-11-03T00:00:00Z");
  EXPECT_EQ(store.list_samples({.created_after = "2026-11-01T00:00:00Z"}).value().size(), 1U);
}

TEST(Store, UncutRunsAreOfTheOperatorAtAnyLengthNewestFirst) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  const auto fingerprint = examples::fingerprint();
  const auto add = [&](const planner::OpSpec& op, double compute_us, double predicted_us = 40) {
    Measurement one = examples::measurement();
    one.op = op;
    one.cut = {{op.m}};
    one.compute_us = compute_us;
    one.predicted_compute_us = one.predicted_communication_us = predicted_us;
    ASSERT_TRUE(store.add_measurement(fingerprint, one, kNow).ok());
  };
  planner::OpSpec wider = examples::op();
  wider.n *= 2;
  EXPECT_FALSE(store.has_run(examples::op(), fingerprint).value());
  add(examples::op(), 50);
  EXPECT_TRUE(store.has_run(examples::op(2048), fingerprint).value());
  EXPECT_FALSE(store.has_run(wider, fingerprint).value());
  add(wider, 99);
  add(examples::op(), 77, 0); // a run of the race that made the model
  add(examples::op(4096), 200);
  const auto runs = store.speed_record(examples::op(2048), fingerprint).value().runs;
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs.front().op, examples::op(4096));
  EXPECT_EQ(runs.front().compute_us, 200);
  EXPECT_EQ(runs.back().compute_us, 50);
  for (int i = 0; i < kMostUncutRuns; ++i) add(examples::op(), 60);
  EXPECT_EQ(store.speed_record(examples::op(), fingerprint).value().runs.size(), std::size_t{kMostUncutRuns});
}

TEST(Store, PlanThatNothingCouldFindOrRunIsNotKept) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  planner::Plan plan = examples::plan(); // for 2 ranks
  expect_error(store.put_plan(plan, "", kNow), ErrorCode::InvalidSpec, "purpose: is empty");
  plan.fingerprint.fields["ranks"] = "4";
  expect_error(store.put_plan(plan, "tuned", kNow), ErrorCode::InvalidSpec, "ranks: 2, but the machine has 4");
  plan.fingerprint.fields.clear();
  expect_error(store.put_plan(plan, "tuned", kNow), ErrorCode::Unsupported, "fingerprint: is empty");
  EXPECT_EQ(store.stats().value().plan_count, 0);
}

TEST(Store, ValueThatCouldNotBeReadBackIsNotKept) {
  const TemporaryDirectory directory;
  Store store = open_new(directory / "mc2.db");
  planner::Plan plan = examples::plan();
  plan.reason = "bad \xff byte";
  expect_error(store.put_plan(plan, "tuned", kNow), ErrorCode::InvalidSpec, "not UTF-8");
  plan = examples::plan();
  plan.cut.block_rows = {1};
  expect_error(store.put_plan(plan, "tuned", kNow), ErrorCode::InvalidSpec, "cut.block_rows: sum to 1, not 1024 rows");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  plan = examples::plan();
  plan.validation->fused_us = nan;
  expect_error(store.put_plan(plan, "tuned", kNow), ErrorCode::InvalidSpec, "validation.fused_us: is nan us");
  Measurement measurement = examples::measurement();
  measurement.compute_us = nan;
  expect_error(store.add_measurement(examples::fingerprint(), measurement, kNow), ErrorCode::InvalidSpec,
               "compute_us: is nan us");
  planner::CostModel model = examples::model();
  model.variants[0].compute.fixed_us = nan;
  expect_error(store.put_model(model, kNow), ErrorCode::InvalidSpec, "variants[0].compute.fixed_us: is nan us");
  model = examples::model();
  model.variants.clear();
  expect_error(store.put_model(model, kNow), ErrorCode::InvalidSpec, "variants");
  planner::Sample sample = examples::sample();
  sample.block_count = 0;
  expect_error(store.append_samples(examples::op(), examples::fingerprint(), {&sample, 1}, kNow),
               ErrorCode::InvalidSpec, "samples[0].block_count");
  sample = examples::sample();
  sample.component = planner::Component::Matmul;
  sample.message_bytes = sample.block_rows = 0;
  expect_error(store.append_samples(examples::op(), examples::fingerprint(), {&sample, 1}, kNow),
               ErrorCode::InvalidSpec, "samples[0].block_rows: is 0; must be above 0");
  plan = examples::plan();
  plan.validation->benefit = plan.validation->benefit_high = 0.99;
  expect_error(store.put_plan(plan, "tuned", kNow), ErrorCode::InvalidSpec, "validation.benefit: is 0.99, but");
  planner::Fingerprint of_four = examples::fingerprint();
  of_four.fields["ranks"] = "4";
  expect_error(store.add_measurement(of_four, examples::measurement(), kNow), ErrorCode::InvalidSpec,
               "ranks: 2, but the machine has 4");
  model = examples::model();
  model.fingerprint = of_four;
  expect_error(store.put_model(model, kNow), ErrorCode::InvalidSpec, "ranks: 2, but the machine has 4");
  EXPECT_EQ(store.stats().value().plan_count, 0);
}

TEST(Store, ReadOnlyStoreRefusesEveryWrite) {
  const TemporaryDirectory directory;
  { const Store created = open_new(directory / "mc2.db"); }
  Store store = Store::open(directory / "mc2.db", OpenMode::ReadOnly).value();
  const auto fingerprint = examples::fingerprint();
  const auto sample = examples::sample();
  expect_error(store.put_plan(examples::plan(), "tuned", kNow), ErrorCode::ReadOnly, "read-only");
  expect_error(store.put_model(examples::model(), kNow), ErrorCode::ReadOnly, "read-only");
  expect_error(store.append_samples(examples::op(), fingerprint, {&sample, 1}, kNow), ErrorCode::ReadOnly, "read-only");
  expect_error(store.replace_samples(examples::op(), fingerprint, {&sample, 1}, kNow), ErrorCode::ReadOnly,
               "read-only");
  expect_error(store.add_measurement(fingerprint, examples::measurement(), kNow), ErrorCode::ReadOnly, "read-only");
  expect_error(store.merge(store), ErrorCode::ReadOnly, "read-only");
  expect_error(store.import_json(store.export_json().value()), ErrorCode::ReadOnly, "read-only");
}

TEST(Store, ReadOnlyNeedsAStoreThatExists) {
  const TemporaryDirectory directory;
  expect_error(Store::open(directory / "mc2.db", OpenMode::ReadOnly), ErrorCode::NotFound, "mc2.db");
  EXPECT_FALSE(fs::exists(directory / "mc2.db"));
  place::write_file(directory / "mc2.db", "");
  expect_error(Store::open(directory / "mc2.db", OpenMode::ReadOnly), ErrorCode::NotFound, "is empty");
}

TEST(Store, EmptyFileBecomesAStore) {
  const TemporaryDirectory directory;
  place::write_file(directory / "mc2.db", "");
  EXPECT_TRUE(Store::open(directory / "mc2.db", OpenMode::ReadWrite).ok());
}

TEST(Store, PathMustNameAFile) {
  const TemporaryDirectory directory;
  expect_error(Store::open("", OpenMode::ReadWrite), ErrorCode::InvalidSpec, "name a file");
  expect_error(Store::open("/dev/null", OpenMode::ReadWrite), ErrorCode::InvalidSpec, "not a regular file");
  for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::ReadWrite})
    expect_error(Store::open(directory.path(), mode), ErrorCode::InvalidSpec, "is a directory");
  place::write_file(directory / "file", "x");
  expect_error(Store::open(directory / "file/mc2.db", OpenMode::ReadWrite), ErrorCode::InvalidSpec, "is a file");
}

TEST(Store, UnwritableDirectoryIsReadOnlyAndCanStillBeRead) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(open_new(directory / "mc2.db").put_plan(examples::plan(), "tuned", kNow).ok());
  fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(place::run_unprivileged(directory.path(),
                                    [&] {
                                      const auto refused = Store::open(directory / "mc2.db", OpenMode::ReadWrite);
                                      if (refused.ok() || refused.error().code != ErrorCode::ReadOnly) return 1;
                                      const auto inside = Store::open(directory / "new/mc2.db", OpenMode::ReadWrite);
                                      if (inside.ok() || inside.error().code != ErrorCode::ReadOnly) return 2;
                                      const auto store = Store::open(directory / "mc2.db", OpenMode::ReadOnly);
                                      return store.ok() && store.value().find_plan(key_of(examples::plan())).ok() ? 0
                                                                                                                  : 3;
                                    }),
            0);
}

TEST(Store, UnwritableFileIsReadOnly) {
  const TemporaryDirectory directory;
  { const Store created = open_new(directory / "mc2.db"); }
  fs::permissions(directory / "mc2.db", fs::perms::owner_read);
  EXPECT_EQ(place::run_unprivileged(directory.path(),
                                    [&] {
                                      const auto refused = Store::open(directory / "mc2.db", OpenMode::ReadWrite);
                                      return !refused.ok() && refused.error().code == ErrorCode::ReadOnly ? 0 : 1;
                                    }),
            0);
}

TEST(Store, UnreadableFileIsThereButRefused) {
  const TemporaryDirectory directory;
  { const Store created = open_new(directory / "mc2.db"); }
  fs::permissions(directory / "mc2.db", fs::perms::none);
  EXPECT_EQ(place::run_unprivileged(directory.path(),
                                    [&] {
                                      const auto refused = Store::open(directory / "mc2.db", OpenMode::ReadOnly);
                                      return !refused.ok() && refused.error().code == ErrorCode::Unreadable ? 0 : 1;
                                    }),
            0);
}

TEST(Store, NewerSchemaIsRefusedInBothModes) {
  const TemporaryDirectory directory;
  { const Store created = open_new(directory / "mc2.db"); }
  execute(directory / "mc2.db", "PRAGMA user_version = 8");
  for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::ReadWrite})
    expect_error(Store::open(directory / "mc2.db", mode), ErrorCode::NewerVersion, "schema 8, this one knows 7");
}

TEST(Store, OlderSchemaCanBeReadAndIsBroughtUpToDateByAWriter) {
  const TemporaryDirectory directory;
  const fs::path file = directory / "mc2.db";
  const std::string kept = open_new(file).put_plan(examples::plan(), "tuned", kNow).value();
  // Schema 1 had no count of changes, no changes and no tokens.
  for (const std::string table : {"plan", "model", "sample_batch", "measurement"})
    for (const std::string event : {"kept", "changed", "removed"}) execute(file, "DROP TRIGGER " + table + "_" + event);
  execute(file,
          "DROP TABLE replica; DROP TABLE history; DROP TABLE change; ALTER TABLE fingerprint DROP COLUMN revision; "
          "DROP TABLE token; DROP TABLE revision; DROP INDEX model_digest; DROP INDEX sample_batch_digest; "
          "DROP INDEX measurement_digest; DROP INDEX measurement_newest; "
          "PRAGMA user_version = 1");
  {
    const auto read_only = Store::open(file, OpenMode::ReadOnly);
    ASSERT_TRUE(read_only.ok()) << read_only.error().text();
    EXPECT_EQ(read_only.value().find_plan(kept).value().digest, kept);
    EXPECT_TRUE(read_only.value().list_tokens().value().is_empty());
    EXPECT_TRUE(read_only.value().check().is_healthy);
    expect_error(read_only.value().changes_since(0, 1), ErrorCode::ReadOnly, "does not record changes");
  }
  Store writer = open_new(file);
  EXPECT_EQ(writer.stats().value().schema_version, 7);
  EXPECT_EQ(writer.find_plan(kept).value().digest, kept);
  EXPECT_TRUE(writer.revision().ok());
}

TEST(Store, WalModeIsTurnedOffUnlessSomebodyUsesIt) {
  const TemporaryDirectory directory;
  { const Store created = open_new(directory / "mc2.db"); }
  {
    RawConnection other(directory / "mc2.db");
    other.execute("PRAGMA journal_mode = WAL; SELECT count(*) FROM plan");
    expect_error(Store::open(directory / "mc2.db", OpenMode::ReadWrite), ErrorCode::Unsupported, "WAL mode");
    EXPECT_TRUE(Store::open(directory / "mc2.db", OpenMode::ReadOnly).ok());
  }
  EXPECT_TRUE(open_new(directory / "mc2.db").check().is_healthy);
  EXPECT_EQ(place::read_file(directory / "mc2.db").substr(18, 2), "\x01\x01");
}

TEST(Store, LinkedStoreIsOpenedWhereItLies) {
  const TemporaryDirectory directory;
  const planner::Plan plan = examples::plan();
  ASSERT_TRUE(open_new(directory / "real/mc2.db").put_plan(plan, "tuned", kNow).ok());
  fs::create_symlink(directory / "real/mc2.db", directory / "link.db");
  EXPECT_TRUE(open_new(directory / "link.db").find_plan(key_of(plan)).ok());
}

TEST(Store, ListsModelsOfOneKindTypeAndRankCountOnOneMachine) {
  const TemporaryDirectory directory;
  Store store = Store::open(directory / "store.db", OpenMode::ReadWrite).value();
  const planner::CostModel first = examples::model();
  planner::CostModel other_shape = first, other_ranks = first, other_machine = first;
  other_shape.op.n += 64;
  other_ranks.op.world_size += 2;
  other_machine.fingerprint.fields["cpu_model"] = "another";
  for (const auto& model : {first, other_shape, other_ranks, other_machine})
    ASSERT_TRUE(store.put_model(model, kNow).ok());
  planner::OpSpec asked = first.op;
  asked.m = 7;
  asked.n = 9;
  const auto models = store.list_models(asked, first.fingerprint).value();
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0], other_shape); // newest first
  EXPECT_EQ(models[1], first);
  asked.dtype = planner::DType::F16;
  EXPECT_TRUE(store.list_models(asked, first.fingerprint).value().empty());
}

} // namespace
} // namespace mc2::store::store_test
