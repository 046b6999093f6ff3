#include "mc2/embed/plan_finder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "client/examples.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/layers.hpp"
#include "support/models.hpp"
#include "support/operators.hpp"

namespace mc2::embed::plan_finder_test {
namespace {

using finder::PlanQuestion;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr const char* kDate = "2025-01-02T03:04:05Z";

class PlanFinders : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] FinderOptions with_store() {
    FinderOptions options;
    options.store = directory_ / "store.db";
    options.log = [this](LogLevel level, const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(level, line);
    };
    return options;
  }
  /// A finder that looks a plan up anew each time it is asked.
  [[nodiscard]] Result<PlanFinder> renewing_finder() {
    auto options = with_store();
    options.refresh = std::chrono::milliseconds(0);
    return PlanFinder::open(options);
  }
  void keep(const planner::Plan& plan) {
    auto layers = store::Layers::open({{}, directory_ / "store.db"}).value();
    ASSERT_TRUE(layers.writable().put_plan(plan, "tuned", kDate).ok());
  }
  /// A model with 20 us + 0.5 us/row of matmul and 20 us + 0.5 us/KiB of all-reduce.
  [[nodiscard]] static planner::CostModel model(const PlanQuestion& question) {
    auto made = mc2::testing::model_of(question.op, mc2::testing::affine(planner::CurveAxis::Rows, 20, 0.5),
                                       mc2::testing::affine(planner::CurveAxis::Bytes, 20, 0.5 / 1024));
    made.fingerprint = question.machine;
    return made;
  }

  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("mc2-finder-" + std::to_string(::getpid()));
  std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> lines_;
};

TEST_F(PlanFinders, TakesTheFirstPlaceAndSaysWhyOthersHadNone) {
  const auto question = client::examples::question();
  keep(client::examples::plan(question));
  std::ofstream(directory_ / "other.json") << store::encode(client::examples::plan(client::examples::question(2048)));
  auto options = with_store();
  options.plan_files = {directory_ / "other.json"};
  const auto finder = PlanFinder::open(options);
  ASSERT_TRUE(finder.ok());
  const auto found = finder.value().find(question);
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(found.value()->source, "kept plans");
  EXPECT_EQ(found.value()->stored.plan, client::examples::plan(question));
  EXPECT_THAT(found.value()->misses, ElementsAre(AllOf(HasSubstr("other.json"), HasSubstr("m=2048"))));
  EXPECT_THAT(lines_, Contains(Pair(LogLevel::Debug, AllOf(HasSubstr("event=plan "), HasSubstr("cut=\"128 + 896\""),
                                                           HasSubstr("source=\"kept plans\""), HasSubstr("miss=")))));
}

TEST_F(PlanFinders, RemembersAPlanWithoutAskingAgain) {
  const auto question = client::examples::question();
  keep(client::examples::plan(question, 128));
  const auto finder = PlanFinder::open(with_store());
  const auto first = finder.value().find(question).value();
  keep(client::examples::plan(question, 256));
  EXPECT_EQ(finder.value().find(question).value(), first); // the remembered object, not the newer plan
}

TEST_F(PlanFinders, TakesANewerPlanOnceTheOldOneIsOfAge) {
  const auto question = client::examples::question();
  keep(client::examples::plan(question, 128));
  const auto finder = renewing_finder();
  EXPECT_EQ(finder.value().find(question).value()->stored.plan.cut.block_rows.front(), 128);
  keep(client::examples::plan(question, 256));
  EXPECT_EQ(finder.value().find(question).value()->stored.plan.cut.block_rows.front(), 256);
}

TEST_F(PlanFinders, WaitsOnlyAMomentForALockedStoreOnceItHasAPlan) {
  const auto question = client::examples::question();
  keep(client::examples::plan(question, 128));
  const auto finder = renewing_finder();
  const auto old = finder.value().find(question).value();
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open((directory_ / "store.db").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ(finder.value().find(question).value(), old);
  EXPECT_THAT(lines_, Contains(Pair(LogLevel::Warning, HasSubstr("has held the store for 0.03 s"))));
  sqlite3_close(other);
}

TEST_F(PlanFinders, KeepsAnOldPlanWhereNothingNewerCanBeHad) {
  const auto question = client::examples::question();
  keep(client::examples::plan(question, 128));
  const auto finder = renewing_finder();
  const auto old = finder.value().find(question).value();
  auto layers = store::Layers::open({{}, directory_ / "store.db"}).value();
  ASSERT_TRUE(layers.writable().remove_plan(old->stored.digest).ok());
  EXPECT_EQ(finder.value().find(question).value(), old);
  EXPECT_THAT(lines_, Contains(Pair(LogLevel::Warning, HasSubstr("event=plan_kept"))));
}

TEST_F(PlanFinders, PlansFromAGivenModel) {
  const auto question = client::examples::question();
  FinderOptions options;
  options.models = {model(question)};
  const auto found = PlanFinder::open(options).value().find(question);
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(found.value()->stored.plan.strategy, "search");
  EXPECT_THAT(found.value()->source, HasSubstr("own planner"));
  EXPECT_EQ(found.value()->stored.digest, store::digest(store::encode(found.value()->stored.plan)));
}

TEST_F(PlanFinders, PlansFromTheModelOfAnotherShapeAndMarksIt) {
  auto question = client::examples::question();
  auto options = with_store();
  {
    auto layers = store::Layers::open({{}, options.store}).value();
    ASSERT_TRUE(layers.writable().put_model(model(question), kDate).ok());
  }
  question.op.k *= 2;
  const auto found = PlanFinder::open(options).value().find(question);
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(found.value()->stored.plan.makespan.provenance, planner::Provenance::Extrapolated);
  EXPECT_THAT(found.value()->source, HasSubstr("transferred from n=512 k=256"));
  options.may_transfer = false;
  EXPECT_EQ(PlanFinder::open(options).value().find(question).error().code, ErrorCode::NotFound);
}

TEST_F(PlanFinders, AServicesPlanComesBeforeAKeptOneAndIsAskedForOnce) {
  const auto question = client::examples::question();
  keep(client::examples::plan(question, 256));
  std::atomic<int> asked_count{0}; // counts questions for plans, not those for changes
  const support::FakeService service([&](const std::string& request) {
    if (request.find("/v1/changes") == std::string::npos) ++asked_count;
    return client::examples::good_answer(7, 128);
  });
  auto options = with_store();
  options.service.emplace().url = service.url();
  options.waiting.patience = std::chrono::seconds(20);
  const auto finder = PlanFinder::open(options);
  ASSERT_TRUE(finder.ok()) << finder.error().text();
  for (int call = 0; call < 3; ++call) {
    const auto found = finder.value().find(question);
    ASSERT_TRUE(found.ok()) << found.error().text();
    EXPECT_THAT(found.value()->source, HasSubstr("epoch 7"));
    EXPECT_EQ(found.value()->stored.plan.cut.block_rows.front(), 128);
  }
  EXPECT_EQ(asked_count, 1);
}

TEST_F(PlanFinders, ADeadServiceIsAMissThatNamesIt) {
  const finder::PlanQuestion question = client::examples::question();
  const support::DeadPort port;
  FinderOptions options;
  options.service.emplace().url = port.url();
  options.models = {model(question)};
  const auto found = PlanFinder::open(options).value().find(question);
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_THAT(found.value()->misses, ElementsAre(AllOf(HasSubstr("service"), HasSubstr(port.url()))));
}

TEST_F(PlanFinders, WithoutAnyPlaceTheErrorHasEveryReason) {
  const auto missing = PlanFinder::open(with_store()).value().find(client::examples::question());
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::NotFound);
  EXPECT_THAT(missing.error().message, AllOf(HasSubstr("kept plans"), HasSubstr("own planner")));
}

TEST_F(PlanFinders, AStoreThatCannotBeMadeIsAWarning) {
  for (const auto& [store, reason] :
       {std::pair("/sys/mc2/store.db", "/sys/mc2/store.db: is missing and cannot be made"),
        {"/dev/null/mc2/store.db", "a part of this path is a file"}}) { // as with HOME=/dev/null
    std::vector<std::string> warnings;
    FinderOptions options;
    options.store = store;
    options.log = [&](LogLevel level, const std::string& line) {
      if (level == LogLevel::Warning) warnings.push_back(line);
    };
    const auto finder = PlanFinder::open(options);
    ASSERT_TRUE(finder.ok()) << store;
    const auto missing = finder.value().find(client::examples::question());
    EXPECT_EQ(missing.error().code, ErrorCode::NotFound);
    EXPECT_THAT(missing.error().message, AllOf(HasSubstr("kept plans: "), HasSubstr(reason)));
    EXPECT_THAT(warnings, ElementsAre(HasSubstr(reason)));
  }
}

TEST_F(PlanFinders, APlanSaysWhyTheStoreWasLeftOut) {
  const auto question = client::examples::question();
  FinderOptions options;
  options.models = {model(question)};
  for (const std::filesystem::path& store : {std::filesystem::path("/dev/null"), directory_}) {
    options.store = store;
    const auto found = PlanFinder::open(options).value().find(question);
    ASSERT_TRUE(found.ok()) << found.error().text();
    EXPECT_THAT(found.value()->misses, ElementsAre(HasSubstr("kept plans: " + store.string())));
  }
}

TEST_F(PlanFinders, ADamagedStoreIsAnErrorEvenBesideAModel) {
  auto options = with_store();
  options.models = {model(client::examples::question())};
  std::ofstream(options.store) << std::string(4096, 'x');
  EXPECT_EQ(PlanFinder::open(options).error().code, ErrorCode::Corrupt);
}

TEST_F(PlanFinders, RefusesIllegalQuestionsAndOptions) {
  const auto finder = PlanFinder::open({});
  ASSERT_TRUE(finder.ok());
  EXPECT_EQ(finder.value().find({}).error().code, ErrorCode::InvalidSpec);
  auto question = client::examples::question();
  question.options.emplace().alignment = 0;
  EXPECT_EQ(finder.value().find(question).error().field, "alignment");
  FinderOptions none;
  none.cached_plan_count = 0;
  EXPECT_EQ(PlanFinder::open(none).error().field, "cached_plan_count");
  FinderOptions file;
  file.plan_files = {directory_ / "none.json"};
  EXPECT_EQ(PlanFinder::open(file).error().code, ErrorCode::NotFound);
}

TEST_F(PlanFinders, ForgetsPlansRatherThanGrow) {
  const auto question = client::examples::question();
  FinderOptions options;
  options.models = {model(question)};
  options.cached_plan_count = 1;
  const auto finder = PlanFinder::open(options);
  const auto first = finder.value().find(question).value();
  ASSERT_TRUE(finder.value().find(client::examples::question(2048)).ok());
  EXPECT_NE(finder.value().find(question).value(), first);
}

TEST_F(PlanFinders, DisabledEveryAnswerIsUncut) {
  const PlanQuestion question{.op = client::examples::question().op,
                              .machine = executor::find_backend("host").value()->fingerprint({})};
  auto options = with_store();
  keep(client::examples::plan(question));
  options.is_disabled = true;
  const auto found = PlanFinder::open(options).value().find(question);
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(found.value()->stored.plan.cut.block_rows, std::vector<std::int64_t>{1024});
  EXPECT_EQ(found.value()->source, "uncut, mc2 is disabled");
}

TEST_F(PlanFinders, DisabledRangesAreADocumentLikeOthers) {
  PlanQuestion question{.op = client::examples::question().op,
                        .machine = executor::find_backend("host").value()->fingerprint({})};
  question.op.kind = planner::OpKind::MatmulReduceScatter;
  question.op.world_size = 2;
  question.op.m = 1001; // no m that the ranks can share: the ranges end with the one before
  auto options = with_store();
  options.is_disabled = true;
  const auto ranges = PlanFinder::open(options).value().find_ranges(question, 1);
  ASSERT_TRUE(ranges.ok()) << ranges.error().text();
  EXPECT_EQ(ranges.value().op.m, 1000);
  EXPECT_EQ(ranges.value().planned_count, 500);
  const auto read = store::decode_plan_ranges(store::encode(ranges.value()));
  EXPECT_TRUE(read.ok()) << read.error().text();
}

TEST_F(PlanFinders, AreRefusedInAChildProcess) {
  const auto finder = PlanFinder::open(with_store());
  ASSERT_TRUE(finder.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto refused = finder.value().find(client::examples::question());
    ::_exit(!refused && refused.error().code == ErrorCode::Unsupported ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(PlanFinders, AreSharedByThreads) {
  const auto question = client::examples::question();
  auto options = with_store();
  options.models = {model(question)};
  options.refresh = std::chrono::milliseconds(0); // every call asks the store and the models again
  const auto finder = PlanFinder::open(options);
  std::vector<std::jthread> threads;
  std::atomic<int> found_count = 0;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 20; ++i)
        if (finder.value().find(client::examples::question(1024 + 128 * ((thread + i) % 3)))) ++found_count;
    });
  threads.clear();
  EXPECT_EQ(found_count, 80);
}

TEST(FinderOptions, NameWhatTheUserOfTheProgramSets) {
  Environment environment;
  environment.server_url = "http://127.0.0.1:1";
  const auto options = finder_options(environment);
  EXPECT_EQ(options.service->names.token, "MC2_SERVER_TOKEN");
  EXPECT_EQ(options.service->names.ca_file, "MC2_SERVER_CA");
}

TEST(UncutPlan, IsWhatTheBackendRunsUnfusedAndReadsBack) {
  const auto machine = executor::find_backend("host").value()->fingerprint({});
  for (const auto& traits : planner::op_registry()) {
    const planner::OpSpec op = testing::completed({traits.kind, 256, 64, 64, planner::DType::F32, 2});
    const auto plan = uncut_plan(op, machine);
    ASSERT_TRUE(plan.ok()) << plan.error().text();
    EXPECT_EQ(planner::slices_of(plan.value().variant).count(), 1);
    EXPECT_EQ(plan.value().schedule, planner::Schedule::Serial);
    EXPECT_EQ(plan.value().cut.block_rows.size(), 1U);
    EXPECT_EQ(store::decode_plan(store::encode(plan.value())).value(), plan.value());
  }
}

TEST(UncutPlan, RefusesMachinesThatThisBuildDoesNotKnow) {
  const auto op = client::examples::question().op;
  EXPECT_EQ(uncut_plan(op, {}).error().code, ErrorCode::UnknownName);
  EXPECT_EQ(uncut_plan(op, {{{"backend", "torch/gloo"}}}).error().code, ErrorCode::UnknownName);
  EXPECT_EQ(uncut_plan({}, {{{"backend", "host"}}}).error().code, ErrorCode::InvalidSpec);
}

TEST(UncutPlan, RefusesAMachineOfAnotherNumberOfRanks) {
  auto op = client::examples::question().op;
  op.world_size = 4;
  const auto machine = executor::find_backend("host").value()->fingerprint({}); // of 2 ranks
  EXPECT_EQ(uncut_plan(op, machine).error().code, ErrorCode::InvalidSpec);
  EXPECT_EQ(uncut_plan(op, machine).error().text(), "ranks: 4, but the machine has 2");
}

} // namespace
} // namespace mc2::embed::plan_finder_test
