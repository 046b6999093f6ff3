// Measures how long one program waits for a kept plan. Asks the same service in each given way in turn, so that what
// else the machine does slows all ways alike.
//
// Usage: client_asking STORE URL...     e.g. client_asking store.db http://127.0.0.1:8471 unix:/tmp/mc2.sock
// Asks for the store's newest plan, which `mc2 serve --unix-socket /tmp/mc2.sock --store STORE` serves.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "mc2/client/client.hpp"
#include "mc2/store/store.hpp"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 4000;

struct Way {
  std::string url;
  mc2::client::Client client;
  std::vector<double> times_us = {};

  [[nodiscard]] double quantile_us(double q) const {
    return times_us[static_cast<std::size_t>(q * static_cast<double>(times_us.size() - 1))];
  }
};

/// Errors: as Client::open.
mc2::Result<std::vector<Way>> open_all(int count, char** urls) {
  std::vector<Way> ways;
  for (int i = 0; i < count; ++i) {
    mc2::client::Options options;
    options.url = urls[i];
    MC2_ASSIGN(auto client, mc2::client::Client::open(options));
    ways.push_back({urls[i], std::move(client)});
  }
  return ways;
}

mc2::Result<void> run(const std::string& store_path, int url_count, char** urls) {
  MC2_ASSIGN(const auto store, mc2::store::Store::open(store_path, mc2::store::OpenMode::ReadOnly));
  MC2_ASSIGN(const auto plans, store.list_plans());
  if (plans.empty()) return mc2::Error{mc2::ErrorCode::NotFound, store_path, "has no plan; mc2 tune makes one"};
  const mc2::client::PlanQuestion question{.op = plans.front().plan.op, .machine = plans.front().plan.fingerprint};
  MC2_ASSIGN(auto ways, open_all(url_count, urls));
  for (int round = 0; round < kRounds; ++round)
    for (Way& way : ways) {
      const auto begin = Clock::now();
      MC2_TRY(way.client.find_plan(question));
      way.times_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
  std::puts("url,count,p50_us,p90_us,p99_us");
  for (Way& way : ways) {
    std::ranges::sort(way.times_us);
    std::printf("%s,%d,%.0f,%.0f,%.0f\n", way.url.c_str(), kRounds, way.quantile_us(0.5), way.quantile_us(0.9),
                way.quantile_us(0.99));
  }
  return {};
}

} // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fputs("usage: client_asking STORE URL...\n", stderr);
    return 2;
  }
  const auto done = run(arguments[1], count - 2, arguments + 2);
  if (!done) std::fprintf(stderr, "client_asking: %s\n", done.error().text().c_str());
  return done ? 0 : 1;
}
