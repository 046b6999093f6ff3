#include "mc2/client/plan_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "client/examples.hpp"

namespace mc2::client {
namespace {

using examples::client_of;
using examples::good_answer;
using planner::Error;
using planner::ErrorCode;
using planner::Result;
using support::DeadPort;
using support::FakeService;
using testing::ElementsAre;
using testing::HasSubstr;

PlanSource local(std::int64_t short_rows = 512) {
  return {"own planner", [=](const PlanQuestion& question) -> Result<FoundPlan> {
            FoundPlan found;
            found.stored.plan = examples::plan(question, short_rows);
            found.source = "own planner";
            return found;
          }};
}

PlanSource failing(ErrorCode code) {
  return {"broken", [=](const PlanQuestion&) -> Result<FoundPlan> { return Error{code, "x", "says no"}; }};
}

/// Short waits, and none that a test would have to sit out.
ServiceOptions quick() {
  return {.patience = std::chrono::milliseconds(30), .refresh = std::chrono::hours(1), .retry = std::chrono::hours(1)};
}

std::int64_t short_block(const FoundPlan& found) { return found.stored.plan.cut.block_rows.front(); }

TEST(FindPlan, TakesTheFirstThatHasOneAndSaysWhyOthersHadNone) {
  const std::vector<PlanSource> sources{failing(ErrorCode::NotFound), failing(ErrorCode::Stale), local()};
  const auto found = find_plan(sources, examples::question());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value().source, "own planner");
  EXPECT_THAT(found.value().misses, ElementsAre("broken: x: says no", "broken: x: says no"));
}

TEST(FindPlan, DamageEndsTheSearchAndNothingIsAnErrorWithEveryReason) {
  const std::vector<PlanSource> damaged{failing(ErrorCode::Corrupt), local()};
  EXPECT_EQ(find_plan(damaged, examples::question()).error().code, ErrorCode::Corrupt);
  const std::vector<PlanSource> none{failing(ErrorCode::NotFound), failing(ErrorCode::Infeasible)};
  const auto missing = find_plan(none, examples::question());
  EXPECT_EQ(missing.error().code, ErrorCode::Infeasible);
  EXPECT_EQ(missing.error().message, "broken: x: says no; broken: x: says no");
  EXPECT_EQ(find_plan({}, examples::question()).error().code, ErrorCode::NotFound);
}

class PlanSources : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(directory_);
    layers_.emplace(store::Layers::open({{}, directory_ / "store.db"}).value());
    shared_.emplace(*layers_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("mc2-sources-" + std::to_string(::getpid()));
  std::optional<store::Layers> layers_;
  std::optional<SharedLayers> shared_;
};

TEST_F(PlanSources, AFileAnswersForItsOwnOperatorAndMachine) {
  const auto path = directory_ / "plan.json";
  std::ofstream(path) << store::encode(examples::plan(examples::question()));
  const PlanSource file = plan_file(path).value();
  EXPECT_EQ(short_block(file.find(examples::question()).value()), 128);
  EXPECT_EQ(file.find(examples::question(2048)).error().code, ErrorCode::NotFound);
  PlanQuestion elsewhere = examples::question();
  elsewhere.machine.fields["cpu_model"] = "another";
  EXPECT_THAT(file.find(elsewhere).error().message, HasSubstr("cpu_model"));
  EXPECT_EQ(plan_file(directory_ / "none.json").error().code, ErrorCode::NotFound);
  std::ofstream(path) << "{";
  EXPECT_EQ(plan_file(path).error().field, path.string());
}

TEST_F(PlanSources, KeptPlansAnswerQuestionsWithoutOptions) {
  const PlanSource kept = kept_plans(*shared_);
  EXPECT_EQ(kept.find(examples::question()).error().code, ErrorCode::NotFound);
  ASSERT_TRUE(layers_->writable().put_plan(examples::plan(examples::question()), "tuned", "2025-01-02T03:04:05Z").ok());
  EXPECT_EQ(kept.find(examples::question()).value().stored.created_at, "2025-01-02T03:04:05Z");
  PlanQuestion with_options = examples::question();
  with_options.options.emplace();
  EXPECT_EQ(kept.find(with_options).error().code, ErrorCode::NotFound);
}

TEST(PlanService, AnswersAndThenAnswersFromMemory) {
  FakeService service([](const std::string&) { return good_answer(7); });
  ServiceOptions patient = quick();
  patient.patience = std::chrono::seconds(20);
  const PlanSource source = plan_service(client_of(service.url()), patient);
  EXPECT_EQ(source.find(examples::question()).value().source, "service " + service.url() + ", tuned plan of epoch 7");
  for (int i = 0; i < 10; ++i)
    EXPECT_THAT(source.find(examples::question()).value().source, HasSubstr("tuned plan of epoch 7, asked "));
  EXPECT_EQ(service.request_count(), 1);
}

TEST(PlanService, ARefusalIsAMissThatIsRemembered) {
  FakeService service([](const std::string&) {
    return support::http_answer(R"({"code":"not_found","detail":"no plan"})", "404 Not Found",
                                "application/problem+json");
  });
  ServiceOptions patient = quick();
  patient.patience = std::chrono::seconds(20);
  const PlanSource source = plan_service(client_of(service.url()), patient);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(source.find(examples::question()).error().code, ErrorCode::NotFound);
  EXPECT_EQ(service.request_count(), 1);
}

/// Whatever the service does, the next source answers, and the answer says why.
void expect_fallback(const std::string& url, const std::string& why) {
  const std::vector<PlanSource> sources{plan_service(client_of(url), quick()), local()};
  const auto first = find_plan(sources, examples::question());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first.value().source, "own planner");
  ASSERT_EQ(first.value().misses.size(), 1U);
  EXPECT_THAT(first.value().misses[0], HasSubstr("service: " + url + ": "));
  EXPECT_THAT(first.value().misses[0], HasSubstr(why));
  // The breaker: nobody waits again, not for another question either.
  for (const std::int64_t m : {1024, 2048, 4096})
    EXPECT_THAT(find_plan(sources, examples::question(m)).value().misses[0], HasSubstr("not waited for again within"));
}

TEST(PlanService, ADeadPortFallsBack) {
  const DeadPort dead;
  expect_fallback(dead.url(), "check that mc2 serve runs there");
}

TEST(PlanService, ABlackHoleFallsBack) {
  FakeService service([](const std::string&) { return std::string(); });
  expect_fallback(service.url(), "within 30 ms");
}

TEST(PlanService, GarbageErrorsAndForgedAnswersFallBack) {
  const auto forged = examples::answer_document(examples::plan(examples::question()), 7, std::string(64, 'a'));
  for (const std::string& bytes :
       {std::string("garbage\r\n\r\n"), support::http_answer(forged), support::http_answer(std::string(2'000'000, ' ')),
        support::http_answer("", "500 Internal Server Error"), support::http_answer("", "401 Unauthorized")}) {
    FakeService service([&](const std::string&) { return bytes; });
    expect_fallback(service.url(), "");
  }
}

/// Asks until the source is `wanted`; false after many times.
bool comes_from(const PlanSource& source, const std::string& wanted) {
  for (int i = 0; i < 4000; ++i) {
    const auto found = source.find(examples::question());
    if (found && found.value().source.find(wanted) != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(PlanService, WhatCameTooLateIsThereTheNextTime) {
  FakeService slow([](const std::string&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return good_answer(9);
  });
  ServiceOptions options = quick();
  options.retry = std::chrono::milliseconds(20);
  const PlanSource source = plan_service(client_of(slow.url()), options);
  EXPECT_EQ(source.find(examples::question()).error().code, kUnavailable);
  EXPECT_TRUE(comes_from(source, "epoch 9"));
}

TEST(PlanService, OneThatComesBackIsUsedAgain) {
  std::atomic<bool> is_well{false};
  FakeService service([&](const std::string&) {
    return is_well ? good_answer(3) : support::http_answer("", "503 Service Unavailable");
  });
  ServiceOptions options = quick();
  options.retry = std::chrono::milliseconds(20);
  const PlanSource source = plan_service(client_of(service.url()), options);
  EXPECT_EQ(source.find(examples::question()).error().code, kUnavailable);
  is_well = true;
  EXPECT_TRUE(comes_from(source, "epoch 3"));
}

TEST(PlanService, AnAnswerIsRefreshedInTheBackgroundAndKeptWhileTheServiceIsAway) {
  std::atomic<int> epoch{1};
  FakeService service(
      [&](const std::string&) { return epoch > 0 ? good_answer(epoch) : support::http_answer("", "500 Oops"); });
  ServiceOptions options = quick();
  options.patience = std::chrono::seconds(20);
  options.refresh = std::chrono::milliseconds(1);
  options.retry = std::chrono::milliseconds(1);
  const PlanSource source = plan_service(client_of(service.url()), options);
  EXPECT_THAT(source.find(examples::question()).value().source, HasSubstr("epoch 1"));
  epoch = 2;
  EXPECT_TRUE(comes_from(source, "epoch 2"));
  epoch = 0;
  Result<FoundPlan> found = source.find(examples::question());
  for (int i = 0; i < 4000 && found.value().misses.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    found = source.find(examples::question());
  }
  EXPECT_THAT(found.value().source, HasSubstr("epoch 2"));
  ASSERT_FALSE(found.value().misses.empty()) << "that the answer is not of now is said";
  EXPECT_THAT(found.value().misses[0], HasSubstr("500"));
}

TEST_F(PlanSources, AnAnswerOutlivesTheProcessInTheStore) {
  std::atomic<bool> is_well{true};
  FakeService service(
      [&](const std::string&) { return is_well ? good_answer(5) : support::http_answer("", "500 Oops"); });
  const auto now = [] { return std::string("2025-06-07T08:09:10Z"); };
  ServiceOptions patient = quick();
  patient.patience = std::chrono::seconds(20);
  {
    const PlanSource source = plan_service(client_of(service.url()), patient, &*shared_, now);
    ASSERT_TRUE(source.find(examples::question()).ok());
  } // keeps what it has
  is_well = false;
  const PlanSource later = plan_service(client_of(service.url()), patient, &*shared_, now);
  const auto found = later.find(examples::question());
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(found.value().source, "what service " + service.url() + " answered at 2025-06-07T08:09:10Z");
  EXPECT_THAT(found.value().misses[0], HasSubstr("500"));
  PlanQuestion with_options = examples::question();
  with_options.options.emplace();
  EXPECT_EQ(later.find(with_options).error().code, kUnavailable) << "another question";
}

TEST_F(PlanSources, ManyThreadsAskAtOnce) {
  std::atomic<int> count{0};
  FakeService service(
      [&](const std::string&) { return ++count % 3 == 0 ? support::http_answer("", "503 Busy") : good_answer(5); });
  ServiceOptions options{.patience = std::chrono::milliseconds(20),
                         .refresh = std::chrono::milliseconds(1),
                         .retry = std::chrono::milliseconds(1),
                         .cached_answer_count = 2};
  const std::vector<PlanSource> sources{
      plan_service(client_of(service.url()), options, &*shared_, [] { return std::string("2025-06-07T08:09:10Z"); }),
      kept_plans(*shared_), local()};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int j = 0; j < 50; ++j) {
        const auto found = find_plan(sources, examples::question(j % 2 == 0 ? 1024 : 1024 + 128 * i));
        EXPECT_TRUE(found.ok()) << found.error().text();
      }
    });
}

TEST(OwnPlanner, PlansFromTheModelOrSaysWhyNot) {
  const PlanSource none = own_planner({[](const PlanQuestion&) -> Result<planner::CostModel> {
                                         return Error{ErrorCode::NotFound, "m", "no model"};
                                       },
                                       [](const PlanQuestion&) { return planner::PlanOptions{}; }});
  EXPECT_EQ(none.find(examples::question()).error().message, "no model");
}

} // namespace
} // namespace mc2::client
