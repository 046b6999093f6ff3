#include "mc2/server/listener.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "mc2/store/store.hpp"
#include "store/examples.hpp"
#include "store/place.hpp"

namespace mc2::server::listener_test {
namespace {

namespace examples = store::examples;

store::Token token(std::uint8_t first, std::string& text) {
  store::TokenRandomness random{};
  random.fill(first);
  text = store::token_text(random);
  return {std::string(store::token_id(text)), "", store::Role::Read, examples::kNow, {}, {}, store::token_hash(text)};
}

/// A blocking client on one connection.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// The status of the answer; 0 once the connection has ended.
  int ask(const std::string& target, const std::string& headers) const {
    const std::string request = "GET " + target + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
    if (::send(socket_, request.data(), request.size(), MSG_NOSIGNAL) < 0) return 0;
    std::string answer;
    std::array<char, 4096> part{};
    while (!is_whole(answer)) {
      const ssize_t count = ::recv(socket_, part.data(), part.size(), 0);
      if (count <= 0) return 0;
      answer.append(part.data(), static_cast<std::size_t>(count));
    }
    return std::stoi(answer.substr(9, 3));
  }

 private:
  static bool is_whole(const std::string& answer) {
    const std::size_t head = answer.find("\r\n\r\n"), length = answer.find("Content-Length: ");
    if (head == std::string::npos) return false;
    return length > head || answer.size() - head - 4 >= std::stoul(answer.substr(length + 16));
  }

  int socket_;
};

struct RunningService {
  store::place::TemporaryDirectory directory;
  store::Store store = store::Store::open(directory / "mc2.db", store::OpenMode::ReadWrite).value();
  Config config;
  std::unique_ptr<Listener> listener;
  std::atomic<int> logged_count{0};
  std::jthread runner;

  RunningService() {
    EXPECT_TRUE(store.put_plan(examples::plan(), "tuned", examples::kNow).ok());
    config.port = 0;
    config.thread_count = 2;
    config.store = directory / "mc2.db";
    config.limits.refused_tokens_per_s = 0;
    const auto open_service = [this] {
      return Service::open(config, {[] { return std::string("2026-01-01T00:00:00Z"); }});
    };
    listener = Listener::open(open_service, config, {[this](const AccessRecord&) { ++logged_count; }, {}}).value();
    runner = std::jthread([this] { listener->run(); });
  }
  ~RunningService() { listener->stop(); }
};

TEST(Listener, AnswersWhileLimitsTokensAndPlansChange) {
  RunningService running;
  std::string text;
  const store::Token reader = token(1, text);
  const std::string target = "/v1/plan?m=1024&n=512&k=256";
  std::atomic<bool> is_over{false};
  std::vector<std::set<int>> seen(3);
  std::atomic<int> answered_count{0};
  std::vector<std::jthread> clients;
  for (auto& statuses : seen)
    clients.emplace_back([&] {
      const Client client(running.listener->port());
      while (!is_over) {
        statuses.insert(client.ask(target, "Authorization: Bearer " + text + "\r\nAccept-Encoding: gzip\r\n"));
        ++answered_count;
      }
    });
  ASSERT_TRUE(running.store.add_token(reader).ok());
  for (int i = 0; i < 20; ++i) {
    Config next = running.config;
    next.limits.body_bytes += static_cast<std::size_t>(i);
    next.has_public_read = i % 2 == 0;
    ASSERT_TRUE(running.listener->reload(next).ok());
    planner::Plan plan = examples::plan();
    plan.reason = std::to_string(i);
    ASSERT_TRUE(running.store.put_plan(plan, "tuned", examples::kNow).ok());
    for (const int enough = answered_count + 5; answered_count < enough;) std::this_thread::yield();
  }
  is_over = true;
  clients.clear();
  for (const auto& statuses : seen) EXPECT_EQ(statuses, std::set<int>{200}) << "its token counts all the time";
  EXPECT_EQ(running.logged_count, answered_count);
}

TEST(Listener, ReloadRefusesWhatOpeningRefusesAndChangesNothing) {
  RunningService running;
  Config bad = running.config;
  bad.requires_tokens = true;
  bad.limits.body_bytes = 0;
  EXPECT_FALSE(running.listener->reload(bad).ok());
  EXPECT_EQ(Client(running.listener->port()).ask("/v1/plans", ""), 200);
  bad = running.config;
  bad.requires_tokens = true;
  EXPECT_TRUE(running.listener->reload(bad).ok());
  EXPECT_EQ(Client(running.listener->port()).ask("/v1/plans", ""), 401);
}

TEST(Listener, StopEndsIdleConnections) {
  RunningService running;
  const Client client(running.listener->port());
  EXPECT_EQ(client.ask("/livez", ""), 200);
  running.listener->stop();
  running.runner.join();
  EXPECT_EQ(client.ask("/livez", ""), 0);
}

} // namespace
} // namespace mc2::server::listener_test
