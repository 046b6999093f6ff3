#include "mc2/store/layers.hpp"

#include <gtest/gtest.h>

#include <string>

#include "examples.hpp"
#include "mc2/store/codec.hpp"
#include "place.hpp"
#include "raw_sql.hpp"

namespace mc2::store::layers_test {
namespace {

using examples::key_of;
using examples::kNow;
using place::TemporaryDirectory;

planner::Plan plan_from(const std::string& layer, std::int64_t m = 1024) {
  planner::Plan plan = examples::plan(m);
  plan.reason = layer;
  return plan;
}

void keep(const std::filesystem::path& path, const planner::Plan& plan) {
  ASSERT_TRUE(Store::open(path, OpenMode::ReadWrite).value().put_plan(plan, "tuned", kNow).ok());
}

std::string reason_of(const Result<StoredPlan>& found) {
  return found ? found.value().plan.reason : found.error().text();
}

TEST(Layers, StrongerLayersAnswerFirst) {
  const TemporaryDirectory directory;
  keep(directory / "system.db", plan_from("system"));
  keep(directory / "site.db", plan_from("site"));
  const LayerPaths paths{{directory / "system.db", directory / "site.db"}, directory / "user.db"};
  Layers layers = Layers::open(paths).value();
  EXPECT_EQ(reason_of(layers.find_plan(key_of(examples::plan()))), "site");
  ASSERT_TRUE(layers.writable().put_plan(plan_from("user"), "tuned", kNow).ok());
  EXPECT_EQ(reason_of(layers.find_plan(key_of(examples::plan()))), "user");
}

TEST(Layers, WritesGoToTheWritableLayerOnly) {
  const TemporaryDirectory directory;
  keep(directory / "system.db", plan_from("system"));
  Layers layers = Layers::open({{directory / "system.db"}, directory / "user.db"}).value();
  ASSERT_TRUE(layers.writable().put_plan(plan_from("user", 2048), "tuned", kNow).ok());
  EXPECT_EQ(layers.writable().path(), directory / "user.db");
  EXPECT_EQ(Store::open(directory / "system.db", OpenMode::ReadOnly).value().stats().value().plan_count, 1);
}

Measurement predicted_run(double compute_us) {
  Measurement one = examples::measurement();
  one.predicted_compute_us = 40;
  one.predicted_communication_us = 120;
  one.compute_us = compute_us;
  return one;
}

TEST(Layers, SpeedIsToldNewestFirstWhicheverLayerHoldsIt) {
  const TemporaryDirectory directory;
  const auto add = [&](const char* file, double compute_us, const std::string& when) {
    Store store = Store::open(directory / file, OpenMode::ReadWrite).value();
    ASSERT_TRUE(store.add_measurement(examples::fingerprint(), predicted_run(compute_us), when).ok());
  };
  add("user.db", 40, "2026-11-01T00:00:00Z");
  add("system.db", 80, "2026-11-02T00:00:00Z");
  add("user.db", 120, "2026-11-03T00:00:00Z");
  add("system.db", 120, "2026-11-03T00:00:00Z"); // a copy
  const Layers layers = Layers::open({{directory / "system.db"}, directory / "user.db"}).value();
  const auto record = layers.speed_record(examples::op(), examples::fingerprint());
  ASSERT_EQ(record.ratios.size(), 3U);
  ASSERT_EQ(record.runs.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(record.ratios[i].compute, 3.0 - static_cast<double>(i));
    EXPECT_DOUBLE_EQ(record.runs[i].compute_us, 120 - 40 * static_cast<double>(i));
  }
}

TEST(Layers, MissingSystemStoreIsNoNews) {
  const TemporaryDirectory directory;
  const Layers layers = Layers::open({{directory / "none.db"}, directory / "user.db"}).value();
  EXPECT_TRUE(layers.notes().empty());
}

TEST(Layers, DamagedSystemStoreIsSkippedWithANote) {
  const TemporaryDirectory directory;
  place::write_file(directory / "system.db", std::string(4096, 'x'));
  const Layers layers = Layers::open({{directory / "system.db"}, directory / "user.db"}).value();
  ASSERT_EQ(layers.notes().size(), 1U);
  EXPECT_NE(layers.notes()[0].find("system.db"), std::string::npos);
}

TEST(Layers, APlaceThatCannotBeMadeIsLeftOutWithANote) {
  const TemporaryDirectory directory;
  keep(directory / "system.db", plan_from("system"));
  const LayerPaths paths{{directory / "system.db"}, "/sys/mc2/store.db", true};
  const Layers layers = Layers::open(paths).value();
  EXPECT_EQ(reason_of(layers.find_plan(key_of(examples::plan()))), "system");
  ASSERT_EQ(layers.notes().size(), 1U);
  EXPECT_THAT(layers.notes().front(), ::testing::HasSubstr("/sys/mc2/store.db: is missing and cannot be made"));
  EXPECT_EQ(Layers::open({{}, paths.writable, true}).error().code, ErrorCode::NotFound);
  EXPECT_EQ(Layers::open({paths.read_only, paths.writable}).error().code, ErrorCode::ReadOnly);
  EXPECT_EQ(Layers::open({paths.read_only, "/dev/null/mc2/store.db", true}).error().code, ErrorCode::InvalidSpec);
}

TEST(Layers, WithoutAWritableLayerTheOthersAnswer) {
  const TemporaryDirectory directory;
  keep(directory / "system.db", plan_from("system"));
  Layers layers = Layers::open({{directory / "system.db"}, {}}).value();
  EXPECT_EQ(reason_of(layers.find_plan(key_of(examples::plan()))), "system");
  EXPECT_EQ(layers.writable().put_plan(plan_from("user"), "tuned", kNow).error().code, ErrorCode::ReadOnly);
}

TEST(Layers, UnusableWritableLayerIsAnError) {
  const TemporaryDirectory directory;
  place::write_file(directory / "user.db", std::string(4096, 'x'));
  EXPECT_EQ(Layers::open({{}, directory / "user.db"}).error().code, ErrorCode::Corrupt);
}

TEST(Layers, DamagedDocumentIsAMissAndTheNextLayerAnswers) {
  const TemporaryDirectory directory;
  keep(directory / "system.db", plan_from("system"));
  keep(directory / "user.db", plan_from("user"));
  execute(directory / "user.db", "UPDATE plan SET document = replace(document, 'user', 'uset')");
  const Layers layers = Layers::open({{directory / "system.db"}, directory / "user.db"}).value();
  EXPECT_EQ(reason_of(layers.find_plan(key_of(examples::plan()))), "system");
}

TEST(Layers, EveryLayersReasonIsGivenInOneLine) {
  const TemporaryDirectory directory;
  keep(directory / "system.db", plan_from("system", 2048));
  keep(directory / "user.db", plan_from("user"));
  execute(directory / "user.db", "UPDATE plan SET document = replace(document, 'user', 'uset')");
  const Layers layers = Layers::open({{directory / "system.db"}, directory / "user.db"}).value();
  const auto found = layers.find_plan(key_of(examples::plan()));
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::Corrupt); // NotFound would hide the damage
  EXPECT_NE(found.error().message.find("user.db: plan in row 1 is damaged"), std::string::npos);
  EXPECT_NE(found.error().message.find("system.db: has no tuned plan"), std::string::npos);
  EXPECT_EQ(found.error().text().find('\n'), std::string::npos);
}

TEST(Layers, DigestsAndModelsAreFoundInAnyLayer) {
  const TemporaryDirectory directory;
  keep(directory / "system.db", plan_from("system"));
  ASSERT_TRUE(
      Store::open(directory / "system.db", OpenMode::ReadWrite).value().put_model(examples::model(), kNow).ok());
  const Layers layers = Layers::open({{directory / "system.db"}, directory / "user.db"}).value();
  EXPECT_EQ(reason_of(layers.find_plan(digest(encode(plan_from("system"))).substr(0, 8))), "system");
  EXPECT_EQ(layers.find_model(examples::op(), examples::fingerprint()).value(), examples::model());
  EXPECT_EQ(layers.find_plan(std::string("xyz")).error().code, ErrorCode::InvalidSpec);
  planner::OpSpec other = examples::op();
  other.n = 64;
  EXPECT_EQ(layers.find_model(other, examples::fingerprint()).error().code, ErrorCode::NotFound);
}

TEST(Layers, ListsTheProfilesOfEveryLayerAndTellsThatItsOwnCannotBeRead) {
  const TemporaryDirectory directory;
  const planner::Profile profile = examples::profile();
  for (const char* name : {"system.db", "user.db"}) {
    Store store = Store::open(directory / name, OpenMode::ReadWrite).value();
    ASSERT_TRUE(store.append_samples(profile.op, profile.fingerprint, profile.samples, kNow).ok());
  }
  const Layers layers = Layers::open({{directory / "system.db"}, directory / "user.db"}).value();
  EXPECT_EQ(layers.list_profiles(profile.fingerprint.fields).value().size(), 2U);
  execute(directory / "system.db", "DROP TABLE sample_batch");
  EXPECT_EQ(layers.list_profiles(profile.fingerprint.fields).value().size(), 1U);
  execute(directory / "user.db", "DROP TABLE sample_batch");
  EXPECT_EQ(layers.list_profiles(profile.fingerprint.fields).error().code, ErrorCode::Corrupt);
}

TEST(Layers, ListsTheModelsOfEveryLayer) {
  const TemporaryDirectory directory;
  planner::CostModel model = examples::model();
  const planner::OpSpec asked = model.op;
  ASSERT_TRUE(Store::open(directory / "system.db", OpenMode::ReadWrite).value().put_model(model, kNow).ok());
  Layers layers = Layers::open({{directory / "system.db"}, directory / "user.db"}).value();
  model.op.n *= 2;
  ASSERT_TRUE(layers.writable().put_model(model, kNow).ok());
  const auto models = layers.list_models(asked, model.fingerprint);
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models.front().op.n, 2 * models.back().op.n);
}

} // namespace
} // namespace mc2::store::layers_test
