#include "mc2/client/client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <barrier>
#include <cctype>
#include <filesystem>
#include <set>
#include <thread>

#include "client/examples.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/server/listener.hpp"
#include "mc2/server/service.hpp"
#include "support/models.hpp"

namespace mc2::client::client_test {
namespace {

using examples::answer_document;
using examples::client_of;
using support::DeadPort;
using support::FakeService;
using support::FakeSocketService;
using support::http_answer;
using ::testing::HasSubstr;

/// Runs every test over both wires: TCP and a Unix socket.
template <typename Service>
class ClientOf : public ::testing::Test {};
using Wires = ::testing::Types<FakeService, FakeSocketService>;
TYPED_TEST_SUITE(ClientOf, Wires);

TYPED_TEST(ClientOf, ReadsAPlanAndSendsTheToken) {
  std::string seen;
  TypeParam service([&](const std::string& request) {
    seen = request;
    return examples::good_answer(7);
  });
  Options options{.url = service.url(), .token = "s3cret", .ca_file = {}};
  const auto answer = Client::open(options).value().find_plan(examples::question());
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  EXPECT_EQ(answer.value().plan, examples::plan(examples::question()));
  EXPECT_EQ(answer.value().epoch, 7);
  EXPECT_EQ(answer.value().source, "stored");
  EXPECT_THAT(seen, HasSubstr("POST /v1/plan?machine=" + store::digest(examples::question().machine)));
  EXPECT_THAT(seen, ::testing::ContainsRegex("Authorization: ?Bearer s3cret\r\n"));
}

struct Bad {
  std::string name, bytes;
  ErrorCode code;
  std::string text;
};

std::string chunked(const std::string& chunks) {
  return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks;
}

/// Answers that must each end in an error of one line, never in a signal.
std::vector<Bad> bad_answers() {
  const auto asked = examples::question();
  const std::string whole = examples::good_answer();
  const std::string problem = R"({"code":"not_found","detail":"no such\nplan","field":"machine",)"
                              R"("status":404,"title":"x","type":"about:blank"})";
  const auto refused = [&](const std::string& status) {
    return http_answer(problem, status, "application/problem+json");
  };
  std::vector<Bad> all{
      {"no HTTP", "hello world\r\n\r\n", kUnavailable, ""},
      {"binary", std::string(100'000, '\xff') + "\r\n\r\n", kUnavailable, ""},
      {"closes in the headers", whole.substr(0, 20), kUnavailable, ""},
      {"closes in the body", whole.substr(0, whole.size() - 10), kUnavailable, ""},
      {"no JSON", http_answer("{]"), ErrorCode::Malformed, "cannot be used"},
      {"empty", http_answer(""), ErrorCode::Malformed, "cannot be used"},
      {"deep JSON", http_answer(std::string(100'000, '[')), ErrorCode::Malformed, "cannot be used"},
      {"another document", http_answer(R"({"schema":"mc2.plan/1"})"), ErrorCode::Malformed, "mc2.answer/1"},
      {"newer", http_answer(R"({"schema":"mc2.answer/2"})"), ErrorCode::NewerVersion, "newer mc2"},
      {"no number for the epoch", http_answer(R"({"schema":"mc2.answer/1","epoch":"x"})"), ErrorCode::Malformed,
       "plan"},
      {"wrong digest", http_answer(answer_document(examples::plan(asked), 7, std::string(64, 'a'))),
       ErrorCode::Mismatch, "digest"},
      {"another operator", http_answer(answer_document(examples::plan(examples::question(2048)), 7)),
       ErrorCode::Mismatch, "another operator"},
      {"too large", http_answer(std::string(1'500'000, ' ')), kUnavailable, "more than 1048576 bytes"},
      {"says that it is huge", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + std::string(1'500'000, ' '),
       kUnavailable, "more than 1048576 bytes"},
      {"too large in chunks", chunked("100000\r\n" + std::string(0x100000, ' ') + "\r\n1\r\nx\r\n0\r\n\r\n"),
       kUnavailable, "more than 1048576 bytes"},
      {"no such status", "HTTP/1.1 99999999999 \r\n\r\n", kUnavailable, ""},
      {"redirects", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", kUnavailable,
       "is no mc2 serve"},
      {"404 of something else", http_answer("<html>", "404 Not Found", "text/html"), kUnavailable, "is no mc2 serve"},
      {"404 of ours", refused("404 Not Found"), ErrorCode::NotFound, "machine: no such plan"},
      {"500", refused("500 Internal Server Error"), kUnavailable, "its log says why"},
      {"503", refused("503 Service Unavailable"), kUnavailable, "again later"},
      {"401", refused("401 Unauthorized"), ErrorCode::InvalidSpec, "MC2_SERVER_TOKEN"},
      {"403", http_answer("", "403 Forbidden"), ErrorCode::InvalidSpec, "MC2_SERVER_TOKEN"}};
  // Chunk sizes that are negative or not numbers. They end a process that listens with cpprestsdk.
  for (const char* size : {"-1", "-2", "-3", "-80000000", "ffffffff", "zz", "", "7fffffff"})
    for (const char* before : {"", "5\r\nabcde\r\n"})
      all.push_back({"chunk size " + std::string(before).substr(0, 1) + "/" + size,
                     chunked(std::string(before) + size + "\r\nabcdefgh\r\n0\r\n\r\n"), kUnavailable, ""});
  return all;
}

TYPED_TEST(ClientOf, WhatAServiceMaySendEndsInOneLineThatNamesIt) {
  for (const Bad& bad : bad_answers()) {
    SCOPED_TRACE(bad.name);
    TypeParam service([&](const std::string&) { return bad.bytes; });
    const auto answer = client_of(service.url()).find_plan(examples::question());
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, bad.code) << answer.error().text();
    EXPECT_EQ(answer.error().field, service.url());
    EXPECT_THAT(answer.error().message, HasSubstr(bad.text));
    EXPECT_EQ(answer.error().text().find('\n'), std::string::npos);
  }
}

TEST(Client, ADeadPortIsRefused) {
  const DeadPort dead;
  const support::SocketFile deaf; // nobody listens on it
  for (const std::string& url : {dead.url(), deaf.url(), std::string("unix:/nowhere/mc2.sock")}) {
    const auto refused = client_of(url).find_plan(examples::question());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, kUnavailable);
    EXPECT_THAT(refused.error().text(), HasSubstr("mc2 serve runs there"));
  }
}

TYPED_TEST(ClientOf, ABlackHoleEndsAtTheDeadline) {
  TypeParam black_hole([](const std::string&) { return std::string(); });
  const auto late =
      client_of(black_hole.url()).find_plan(examples::question(), {.deadline = std::chrono::milliseconds(30)});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, kUnavailable);
  EXPECT_THAT(late.error().message, HasSubstr("within 30 ms"));
}

TYPED_TEST(ClientOf, AMessageNamesSettingsAsTheProgramDoes) {
  TypeParam refusing([](const std::string&) { return http_answer("", "401 Unauthorized"); });
  TypeParam black_hole([](const std::string&) { return std::string(); });
  Options options{.url = refusing.url(), .token = {}, .ca_file = {}};
  options.names = {.token = "--follow-token-file", .ca_file = "--follow-ca", .without = "leave out --follow"};
  const auto refused = Client::open(options).value().find_plan(examples::question());
  EXPECT_THAT(refused.error().message, ::testing::EndsWith("; set --follow-token-file"));
  options.url = black_hole.url();
  const auto late = Client::open(options).value().find_plan(
      examples::question(), {.deadline = std::chrono::milliseconds(30), .deadline_name = "--wait"});
  EXPECT_THAT(late.error().message, HasSubstr("within 30 ms (--wait); "));
  EXPECT_THAT(late.error().message, ::testing::EndsWith("or leave out --follow"));
  EXPECT_EQ(late.error().code, kUnavailable);
}

TYPED_TEST(ClientOf, APositionOfAnotherStoreIsAMismatch) {
  std::string seen;
  bool is_other = false;
  TypeParam service([&](const std::string& request) {
    seen = request;
    return is_other ? http_answer(R"({"code":"mismatch","field":"since"})", "409 Conflict", "application/problem+json")
                    : http_answer(R"({"changes":[],"epoch":7,"schema":"mc2.changes/1"})");
  });
  const Client client = client_of(service.url());
  EXPECT_TRUE(client.require_position({7, 11}).ok());
  EXPECT_THAT(seen, HasSubstr("GET /v1/changes?wait_ms=0&rows=true&version="));
  EXPECT_THAT(seen, HasSubstr("&since=7&nonce=11"));
  is_other = true;
  const auto refused = client.require_position({7, 11});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Mismatch);
}

TYPED_TEST(ClientOf, ACallEndsWhenItIsGivenUp) {
  TypeParam black_hole([](const std::string&) { return std::string(); });
  const Client client = client_of(black_hole.url());
  std::stop_source stop;
  const std::jthread ending([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop.request_stop();
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(client.changes_since(1, std::chrono::seconds(50), stop.get_token()).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TYPED_TEST(ClientOf, ChangesAreWaitedForLongerThanOtherAnswers) {
  TypeParam service([](const std::string&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
    return http_answer(R"({"changes":[],"epoch":7,"schema":"mc2.changes/1"})");
  });
  const Options options{.url = service.url(), .token = {}, .ca_file = {}, .deadline = std::chrono::milliseconds(600)};
  const auto changes = Client::open(options).value().changes_since(7, std::chrono::seconds(20));
  ASSERT_TRUE(changes.ok()) << changes.error().text();
  EXPECT_EQ(changes.value().revision, 7);
}

TYPED_TEST(ClientOf, AnAnswerThatTricklesEndsAtTheDeadlineToo) {
  // Each byte restarts cpprestsdk's own timeout; the deadline is of the whole.
  TypeParam service([](const std::string&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return examples::good_answer();
  });
  const auto late =
      client_of(service.url()).find_plan(examples::question(), {.deadline = std::chrono::milliseconds(50)});
  ASSERT_FALSE(late.ok());
  EXPECT_THAT(late.error().message, HasSubstr("within 50 ms"));
}

TEST(Client, OptionsThatNameNoServiceAreRefused) {
  for (const char* url : {"", "plans:8471", "ftp://plans", "http://", "http://u:p@plans", "http://plans/?x=1",
                          "http://a b", "http://plans:99999999", "unix:", "unix:mc2.sock"}) {
    SCOPED_TRACE(url);
    const auto refused = Client::open({.url = url, .token = {}, .ca_file = {}});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
    EXPECT_EQ(refused.error().field, "server");
  }
  EXPECT_FALSE(Client::open({.url = "unix:/" + std::string(107, 'x'), .token = {}, .ca_file = {}}).ok());
  EXPECT_TRUE(Client::open({.url = "unix:/run/mc2.sock", .token = {}, .ca_file = {}}).ok()) << "nobody is asked yet";
  EXPECT_EQ(Client::open({.url = "http://x", .token = "a\r\nb", .ca_file = {}}).error().field, "token");
  EXPECT_EQ(Client::open({.url = "https://x", .token = {}, .ca_file = "/nowhere.pem"}).error().field, "/nowhere.pem");
}

/// mc2's own service on a store of its own.
class RunningService {
 public:
  RunningService() : directory_(std::filesystem::temp_directory_path() / ("mc2-client-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(directory_);
    config_.store = directory_ / "store.db";
    config_.port = 0;
    config_.unix_socket = directory_ / "mc2.sock";
    const auto open_service = [this] {
      return server::Service::open(config_,
                                   {.utc_now = [] { return std::string("2025-01-02T03:04:05Z"); }, .event = {}});
    };
    listener_ = server::Listener::open(open_service, config_, {}).value();
    thread_ = std::jthread([this] { listener_->run(); });
  }
  ~RunningService() {
    listener_->stop();
    thread_.join();
    std::filesystem::remove_all(directory_);
  }
  RunningService(const RunningService&) = delete;
  RunningService& operator=(const RunningService&) = delete;

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(listener_->port()); }
  [[nodiscard]] std::string socket_url() const { return "unix:" + config_.unix_socket.string(); }

 private:
  std::filesystem::path directory_;
  server::Config config_;
  std::unique_ptr<server::Listener> listener_;
  std::jthread thread_;
};

void expect_to_keep_documents_at(const std::string& url) {
  const Client client = client_of(url);
  const auto asked = examples::question();
  const auto plan = examples::plan(asked);
  const auto digest = client.put_plan(plan);
  ASSERT_TRUE(digest.ok()) << digest.error().text();
  EXPECT_EQ(client.find_plan(digest.value().substr(0, 8)).value().plan, plan);
  std::string in_capitals = digest.value();
  for (char& c : in_capitals) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  ASSERT_NE(in_capitals, digest.value());
  EXPECT_EQ(client.find_plan(in_capitals).value().plan, plan); // stores take upper case, too
  EXPECT_EQ(client.find_plan(asked).value().plan, plan);
  // A plan that was tuned with other options answers a question with these options, and no other question.
  const auto of_few_blocks = examples::plan(asked, 256);
  auto few_blocks = asked;
  few_blocks.options = planner::default_options_on(asked.machine);
  few_blocks.options->max_block_count = 2;
  ASSERT_TRUE(client.put_plan(of_few_blocks, finder::tuned_purpose(few_blocks)).ok());
  EXPECT_EQ(client.find_plan(few_blocks).value().plan, of_few_blocks);
  EXPECT_EQ(client.find_plan(asked).value().plan, plan);
  EXPECT_EQ(client.find_plan("ffffff").error().code, ErrorCode::NotFound);
  EXPECT_EQ(client.find_plan("../x").error().code, ErrorCode::InvalidSpec);
  const planner::Sample sample{.variant = "direct", .block_rows = 128, .time = std::chrono::microseconds(5)};
  EXPECT_EQ(client.add_samples({asked.op, asked.machine, {sample, sample}}).value(), 2);

  EXPECT_EQ(client.find_model(asked.op, asked.machine).error().code, ErrorCode::NotFound);
  planner::CostModel model = testing::model_of(asked.op, testing::affine(planner::CurveAxis::Rows, 10, 0.5, 4096),
                                               testing::affine(planner::CurveAxis::Bytes, 10, 0.001, 1e7));
  model.fingerprint = asked.machine;
  for (const std::int64_t m : {2048, 512, 4096}) {
    model.op.m = m;
    ASSERT_TRUE(client.put_model(model).ok()) << client.put_model(model).error().text();
  }
  EXPECT_EQ(client.find_model(asked.op, asked.machine).value().op.m, 2048) << "the nearest";
  EXPECT_EQ(client.find_model(examples::question(9999).op, asked.machine).value().op.m, 4096) << "the largest";
  model.op.m = 2048; // kept later, so listed first
  model.op.epilogue.has_bias = true;
  ASSERT_TRUE(client.put_model(model).ok()) << client.put_model(model).error().text();
  EXPECT_EQ(client.find_model(asked.op, asked.machine).value().op.epilogue, asked.op.epilogue);
  EXPECT_EQ(client.find_model(model.op, asked.machine).value().op.epilogue, model.op.epilogue);
}

TEST(Client, KeepsPlansModelsAndSamplesAtTheService) {
  const RunningService service;
  expect_to_keep_documents_at(service.url());
}

TEST(Client, KeepsThemThroughAUnixSocketToo) {
  const RunningService service;
  expect_to_keep_documents_at(service.socket_url());
}

/// A page of a list of models: `count` of them of this op, all with one digest.
std::string model_page(const planner::OpSpec& op, const std::string& digest, int count, const std::string& next) {
  const std::string item = R"({"digest":")" + digest + R"(","op":)" + store::encode(op) + "}";
  std::string items = item;
  for (int i = 1; i < count; ++i) items += "," + item;
  return http_answer(R"({"items":[)" + items + R"(],"next":)" + next + "}");
}

TEST(Client, ReadsListsPageByPageSoThatTheyMayBeLong) {
  const auto asked = examples::question();
  planner::CostModel model = testing::model_of(asked.op, testing::affine(planner::CurveAxis::Rows, 10, 0.5, 4096),
                                               testing::affine(planner::CurveAxis::Bytes, 10, 0.001, 1e7));
  model.fingerprint = asked.machine;
  const std::string document = store::encode(model), far(64, 'a');
  FakeService service([&](const std::string& request) {
    if (request.starts_with("GET /v1/models/")) return http_answer(document);
    if (request.find("&before=") == std::string::npos) return model_page(examples::question(8192).op, far, 200, "300");
    if (request.find("&before=300") != std::string::npos) return model_page(asked.op, store::digest(document), 1, "7");
    return model_page(examples::question(4096).op, far, 1, "7"); // does not go on: the client must not ask for ever
  });
  const auto found = client_of(service.url()).find_model(asked.op, asked.machine);
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(found.value(), model) << "the nearest, which is on the second page";
  EXPECT_EQ(service.request_count(), 4);
}

TEST(Client, SaysThatATokenIsNeededWhereNoneWasGiven) {
  FakeService service([](const std::string&) { return http_answer("", "401 Unauthorized"); });
  Options options{.url = service.url(), .token = {}, .ca_file = {}};
  const auto without = Client::open(options).value().find_plan(examples::question());
  EXPECT_THAT(without.error().message, HasSubstr("needs a token, as mc2 token create makes there, and none was given"));
  EXPECT_THAT(without.error().message, HasSubstr("; set MC2_SERVER_TOKEN or --token-file"));
  options.token = "mc2_wrong";
  const auto with = Client::open(options).value().find_plan(examples::question());
  EXPECT_THAT(with.error().message, HasSubstr("does not take the token (401)"));
}

TEST(Client, ManyThreadsAskThroughOneSocketAndGetTheirOwnAnswers) {
  const RunningService service;
  const Client client = client_of(service.socket_url());
  for (int i = 1; i <= 4; ++i) ASSERT_TRUE(client.put_plan(examples::plan(examples::question(1024 * i))).ok());
  std::vector<std::jthread> threads;
  for (int i = 1; i <= 4; ++i)
    threads.emplace_back([&client, i] {
      for (int turn = 0; turn < 200; ++turn)
        EXPECT_EQ(client.find_plan(examples::question(1024 * i)).value().plan.op.m, 1024 * i);
    });
}

TEST(Client, AChildThatWasForkedOffHasConnectionsOfItsOwn) {
  const RunningService service;
  const Client client = client_of(service.socket_url());
  ASSERT_TRUE(client.put_plan(examples::plan(examples::question())).ok()); // the child inherits its connection
  const pid_t child = ::fork();
  if (child == 0) {
    for (int turn = 0; turn < 100; ++turn)
      if (!client.find_plan(examples::question())) ::_exit(1);
    ::_exit(0);
  }
  for (int turn = 0; turn < 100; ++turn) EXPECT_TRUE(client.find_plan(examples::question()).ok());
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Client, AChildOfAProcessThatHasAskedOverHttpIsRefusedAtOnce) {
  const RunningService service;
  const Client client = client_of(service.url());
  ASSERT_TRUE(client.put_plan(examples::plan(examples::question())).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const Client own = client_of(service.url());
    for (const Client* one : {&client, &own}) {
      const auto answer = one->find_plan(examples::question());
      if (answer || answer.error().text().find("child of fork()") == std::string::npos) ::_exit(1);
    }
    ::_exit(client_of(service.socket_url()).find_plan(examples::question()) ? 0 : 2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(client.find_plan(examples::question()).ok());
}

TEST(Client, AConnectionThatTheServiceHasEndedIsMadeAnew) {
  std::string answer = examples::good_answer(7);
  answer.erase(answer.find("Connection: close\r\n"), std::string_view("Connection: close\r\n").size());
  FakeSocketService service([&](const std::string&) { return answer; }); // then the service closes unannounced
  const Client client = client_of(service.url());
  for (int turn = 0; turn < 20; ++turn) EXPECT_TRUE(client.find_plan(examples::question()).ok());
}

/// Does among threads what MPI_Bcast does among processes.
class World {
 public:
  explicit World(int size) : barrier_(size) {}
  std::string broadcast(int rank, const std::string& text) {
    if (rank == 0) text_ = text;
    barrier_.arrive_and_wait();
    std::string told = text_;
    barrier_.arrive_and_wait();
    return told;
  }

 private:
  std::barrier<> barrier_;
  std::string text_;
};

TEST(FindPlanAsWorld, EightRanksGetOneAndTheSamePlanWhilePlansAreReplaced) {
  constexpr int kRanks = 8, kRounds = 40;
  const RunningService service;
  const Client client = client_of(service.url());
  const auto asked = examples::question();
  ASSERT_TRUE(client.put_plan(examples::plan(asked, 1)).ok());
  std::atomic<int> replaced_count{0};
  const std::jthread replacer([&](const std::stop_token& stop) {
    for (std::int64_t i = 2; !stop.stop_requested(); i = i % 1000 + 1) {
      EXPECT_TRUE(client.put_plan(examples::plan(asked, i)).ok());
      ++replaced_count;
      replaced_count.notify_all();
    }
  });

  World world(kRanks);
  std::vector<std::vector<Result<store::PlanAnswer>>> answers(kRanks);
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < kRanks; ++rank)
      ranks.emplace_back([&, rank] {
        const Client own = client_of(service.url());
        for (int round = 0; round < kRounds; ++round) {
          if (rank == 0 && round % 10 == 5) replaced_count.wait(replaced_count); // waits until a plan is replaced
          answers[static_cast<std::size_t>(rank)].push_back(find_plan_as_world(
              own, asked, rank, [&](const std::string& text) { return world.broadcast(rank, text); }));
        }
      });
  }
  std::set<std::int64_t> epochs;
  int agreed = 0;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const auto& first = answers[0][round];
    for (const auto& of_rank : answers) {
      const auto& answer = of_rank[round];
      if (!answer) { // an error, not another plan: rank 0 got no answer, or its epoch is gone
        EXPECT_THAT(answer.error().code, ::testing::AnyOf(ErrorCode::Stale, kUnavailable)) << answer.error().text();
        continue;
      }
      ASSERT_TRUE(first.ok());
      EXPECT_EQ(answer.value().epoch, first.value().epoch);
      EXPECT_EQ(answer.value().document, first.value().document);
      epochs.insert(answer.value().epoch);
      ++agreed;
    }
  }
  EXPECT_GT(epochs.size(), 1U) << "plans were replaced meanwhile";
  EXPECT_GT(agreed, kRanks);
}

TEST(FindPlanAsWorld, AnEpochThatIsUnknownAndARankThatFailsAreTold) {
  const RunningService service;
  const Client client = client_of(service.url());
  const auto asked = examples::question();
  const auto none = find_plan_as_world(client, asked, 1, [](const std::string&) { return "failed no plan"; });
  EXPECT_EQ(none.error().field, "rank 0");
  EXPECT_THAT(none.error().message, HasSubstr("no plan"));
  ASSERT_TRUE(client.put_plan(examples::plan(asked)).ok());
  const auto old = find_plan_as_world(client, asked, 1, [](const std::string&) { return "123456 abc"; });
  EXPECT_EQ(old.error().code, ErrorCode::Stale);
  const auto epoch = std::to_string(client.find_plan(asked).value().epoch);
  const auto other = find_plan_as_world(client, asked, 1, [&](const std::string&) { return epoch + " abc"; });
  EXPECT_EQ(other.error().code, ErrorCode::Mismatch);
  EXPECT_EQ(find_plan_as_world(client, asked, 1, [](const std::string&) { return "x"; }).error().code,
            ErrorCode::Mismatch);
}

} // namespace
} // namespace mc2::client::client_test
