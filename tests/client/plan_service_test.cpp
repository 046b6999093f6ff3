#include "mc2/client/plan_service.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "client/examples.hpp"

namespace mc2::client::plan_service_test {
namespace {

using examples::client_of;
using examples::good_answer;
using finder::find_plan;
using finder::FoundPlan;
using finder::kept_plans;
using finder::PlanSource;
using finder::SharedLayers;
using support::DeadPort;
using support::FakeService;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

PlanSource local(std::int64_t short_rows = 512) {
  return {"own planner", [=](const PlanQuestion& question) -> Result<FoundPlan> {
            FoundPlan found;
            found.stored.plan = examples::plan(question, short_rows);
            found.source = "own planner";
            return found;
          }};
}

/// Short waits, and pauses that end in no test.
ServiceOptions quick() {
  return {.patience = std::chrono::milliseconds(30),
          .refresh = std::chrono::hours(1),
          .retry = std::chrono::hours(1),
          .watches = false};
}

class PlanSources : public ::testing::Test {
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

TEST(PlanService, PassesOnThatAPlanIsWorthTuningAgain) {
  const store::Staleness stale{0.07, "4 x 256", "ring(chunks=2)", "by its last run: compute 2.00x"};
  std::string document = examples::answer_document(examples::plan(examples::question()), 5);
  document.pop_back();
  FakeService service(
      [&](const std::string&) { return support::http_answer(document + R"(,"stale":)" + store::encode(stale) + "}"); });
  ServiceOptions patient = quick();
  patient.patience = std::chrono::seconds(20);
  EXPECT_EQ(plan_service(client_of(service.url()), patient).find(examples::question()).value().staleness, stale);
}

TEST(PlanService, IsNotAskedForAVariant) {
  FakeService service([](const std::string&) { return good_answer(7); });
  PlanQuestion of_variant = examples::question();
  of_variant.variant = planner::Variant{"direct", {}};
  EXPECT_EQ(plan_service(client_of(service.url()), quick()).find(of_variant).error().code, ErrorCode::NotFound);
  EXPECT_EQ(service.request_count(), 0);
}

TEST(PlanService, IsToldThatNothingMayBeTransferred) {
  std::mutex mutex;
  std::string asked;
  FakeService service([&](const std::string& request) {
    const std::lock_guard lock(mutex);
    asked = request;
    return good_answer(7);
  });
  ServiceOptions patient = quick();
  patient.patience = std::chrono::seconds(20);
  const PlanSource source = plan_service(client_of(service.url()), patient);
  ASSERT_TRUE(source.find(examples::question()).ok());
  EXPECT_EQ(asked.find("transfer"), std::string::npos) << "services that do not know the word take the question";
  PlanQuestion strict = examples::question();
  strict.may_transfer = false;
  ASSERT_TRUE(source.find(strict).ok());
  EXPECT_THAT(asked, HasSubstr("&transfer=no"));
  EXPECT_EQ(service.request_count(), 2) << "another question";
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
  // After a failure no question waits for the service again, not even a new one.
  for (const std::int64_t m : {1024, 2048, 4096})
    EXPECT_THAT(find_plan(sources, examples::question(m)).value().misses[0], HasSubstr("not waited for again within"));
}

TEST(PlanService, ADeadPortFallsBack) {
  const DeadPort dead;
  expect_fallback(dead.url(), "check that mc2 serve runs there");
}

TEST(PlanService, ABlackHoleFallsBack) {
  FakeService service([](const std::string&) { return std::string(); });
  expect_fallback(service.url(), "within 30 ms (ServiceOptions::patience");
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

/// Asks until the source of an answer is `wanted`. Returns false after 4000 questions.
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

/// A service whose plan has the epoch `epoch`. A question for changes waits until `epoch` is later than the epoch in
/// the question.
class ChangingService {
 public:
  /// @param refusal  what is answered to a question for changes instead, unless it is empty
  explicit ChangingService(std::function<std::string(const std::string& request)> refusal = {})
      : refusal_(std::move(refusal)), service_([this](const std::string& request) { return answer(request); }) {}

  std::atomic<std::int64_t> epoch{5};
  std::atomic<int> asked_count{0};   ///< questions for a plan
  std::atomic<int> watched_count{0}; ///< questions for changes
  [[nodiscard]] std::string url() const { return service_.url(); }

 private:
  std::string answer(const std::string& request) {
    if (request.find("/v1/changes") == std::string::npos) {
      ++asked_count;
      return good_answer(epoch);
    }
    ++watched_count;
    if (const std::string said = refusal_ ? refusal_(request) : ""; !said.empty()) return said;
    const auto since = request.find("since=");
    const std::int64_t told = since == std::string::npos ? 0 : std::stoll(request.substr(since + 6));
    for (int i = 0; i < 5000 && epoch <= told; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    store::Changes changes{{}, epoch};
    if (epoch > told && told > 0) changes.changes.push_back(change(epoch));
    return support::http_answer(store::encode(changes));
  }
  /// A change of the question's operator for an even epoch, of another operator for an odd one.
  static store::Change change(std::int64_t epoch) {
    store::Change made{.revision = epoch,
                       .document = "plan",
                       .op = examples::question().op,
                       .fingerprint_digest = store::digest(examples::question().machine),
                       .purpose = "tuned",
                       .digest = store::digest("a plan")};
    if (epoch % 2 != 0) made.op.kind = planner::OpKind::AllGatherMatmul;
    return made;
  }

  std::function<std::string(const std::string&)> refusal_;
  FakeService service_; ///< last: its threads use the members above
};

ServiceOptions watching() {
  ServiceOptions options = quick();
  options.patience = std::chrono::seconds(20);
  options.watches = true;
  return options;
}

TEST(PlanService, WhatChangesIsAskedForAtOnce) {
  ChangingService service;
  const PlanSource source = plan_service(client_of(service.url()), watching());
  EXPECT_THAT(source.find(examples::question()).value().source, HasSubstr("epoch 5"));
  service.epoch = 6;
  EXPECT_TRUE(comes_from(source, "epoch 6"));
  EXPECT_EQ(service.asked_count, 2);
  service.epoch = 7; // an odd epoch changes another operator
  for (int i = 0; i < 5000 && service.watched_count < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(service.asked_count, 2);
  service.epoch = 8;
  EXPECT_TRUE(comes_from(source, "epoch 8"));
}

TEST(PlanService, TellsThatAnAnswerHasTakenAnothersPlace) {
  std::atomic<int> told_count{0};
  std::atomic<std::int64_t> short_rows{128};
  FakeService service([&](const std::string&) { return good_answer(7, short_rows); });
  ServiceOptions options = quick();
  options.patience = std::chrono::seconds(20);
  options.refresh = std::chrono::milliseconds(1);
  options.on_change = [&] { ++told_count; };
  const PlanSource source = plan_service(client_of(service.url()), options);
  ASSERT_TRUE(source.find(examples::question()).ok());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(source.find(examples::question()).ok()); // the same plan, asked for again
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  EXPECT_EQ(told_count, 0);
  short_rows = 256;
  for (int i = 0; i < 5000 && told_count == 0; ++i) {
    ASSERT_TRUE(source.find(examples::question()).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(told_count, 1);
}

TEST(PlanService, WhoHasMissedChangesAsksForEverythingAnew) {
  std::atomic<bool> is_stale{true};
  ChangingService service([&](const std::string& request) {
    return request.find("since=") != std::string::npos && is_stale.exchange(false)
               ? support::http_answer(R"({"code":"stale","detail":"too long ago"})", "409 Conflict",
                                      "application/problem+json")
               : std::string();
  });
  const PlanSource source = plan_service(client_of(service.url()), watching());
  EXPECT_THAT(source.find(examples::question()).value().source, HasSubstr("epoch 5"));
  for (int i = 0; i < 5000 && service.asked_count < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(service.asked_count, 2);
  service.epoch = 6;
  EXPECT_TRUE(comes_from(source, "epoch 6"));
}

TEST(PlanService, AServiceThatCannotBeWatchedIsNotBesieged) {
  for (const std::string& said :
       {support::http_answer(R"({"code":"not_found","detail":"no such resource"})", "404 Not Found",
                             "application/problem+json"),
        support::http_answer("", "503 Busy"), support::http_answer("nonsense"),
        support::http_answer(R"({"changes":[],"epoch":5,"schema":"mc2.changes/1"})"), // without having waited
        support::http_answer(R"({"code":"stale","detail":"always"})", "409 Conflict", "application/problem+json")}) {
    ChangingService service([&](const std::string&) { return said; });
    ServiceOptions options = watching();
    options.retry = std::chrono::milliseconds(20); // grows: 20, 40, ... ms, each longer by up to half at random
    const PlanSource source = plan_service(client_of(service.url()), options);
    ASSERT_TRUE(source.find(examples::question()).ok());
    for (int i = 0; i < 5000 && service.watched_count < 1; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_LE(service.watched_count, 6) << said;
    EXPECT_LE(service.asked_count, 6) << said;
  }
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
  } // the source keeps its answers in the store
  const auto kept = layers_->list_plan_keys(store::digest(examples::question().machine));
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_TRUE(is_served_copy(kept.front().purpose)) << kept.front().purpose;
  EXPECT_FALSE(is_served_copy("tuned"));
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

TEST_F(PlanSources, ATunedAnswerFromBeforeIsPreferredHoweverFarItsPredictionReached) {
  planner::Plan tuned = examples::plan(examples::question());
  tuned.makespan.provenance = planner::Provenance::Extrapolated;
  const auto now = [] { return std::string("2025-06-07T08:09:10Z"); };
  const auto answer_of_a_service_that_is_gone = [&](const planner::Plan& plan) {
    std::atomic<bool> is_well{true};
    FakeService service([&](const std::string&) {
      return is_well ? support::http_answer(examples::answer_document(plan, 5)) : support::http_answer("", "500 Oops");
    });
    ServiceOptions patient = quick();
    patient.patience = std::chrono::seconds(20);
    {
      const PlanSource source = plan_service(client_of(service.url()), patient, &*shared_, now);
      EXPECT_TRUE(source.find(examples::question()).ok());
    } // the source keeps its answers in the store
    is_well = false;
    const std::vector<PlanSource> places{plan_service(client_of(service.url()), patient, &*shared_, now), local()};
    return find_plan(places, examples::question()).value().source;
  };
  EXPECT_EQ(answer_of_a_service_that_is_gone(tuned), "own planner") << "never run";
  tuned.validation = planner::Validation{
      .fused_us = 80, .serial_us = 120, .benefit = 0.3, .benefit_low = 0.25, .benefit_high = 0.35, .pair_count = 9};
  EXPECT_THAT(answer_of_a_service_that_is_gone(tuned), HasSubstr("answered at"));
}

TEST_F(PlanSources, ManyThreadsAskAtOnce) {
  std::atomic<int> count{0};
  FakeService service(
      [&](const std::string&) { return ++count % 3 == 0 ? support::http_answer("", "503 Busy") : good_answer(5); });
  ServiceOptions options{.patience = std::chrono::milliseconds(20),
                         .refresh = std::chrono::milliseconds(1),
                         .retry = std::chrono::milliseconds(1),
                         .cached_answer_count = 2,
                         .watches = false};
  const std::vector<PlanSource> sources{
      plan_service(client_of(service.url()), options, &*shared_, [] { return std::string("2025-06-07T08:09:10Z"); }),
      kept_plans(finder::kept_in(*shared_)), local()};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int j = 0; j < 50; ++j) {
        const auto found = find_plan(sources, examples::question(j % 2 == 0 ? 1024 : 1024 + 128 * i));
        EXPECT_TRUE(found.ok()) << found.error().text();
      }
    });
}

} // namespace
} // namespace mc2::client::plan_service_test
