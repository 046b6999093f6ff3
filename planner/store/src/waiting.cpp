#include "waiting.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "mc2/store/store.hpp"

namespace mc2::store {
namespace {

using Clock = std::chrono::steady_clock;

thread_local std::chrono::milliseconds current_patience = kLongestWait;

/// SQLite calls this while a lock is taken. @param attempt  counts from 0 in each wait. @returns 1 to try again, else 0
int pause_before_next(void*, int attempt) {
  thread_local Clock::time_point start;
  thread_local std::minstd_rand random(std::random_device{}());
  if (attempt == 0) start = Clock::now();
  if (Clock::now() - start > patience()) return 0;
  // Random lengths, because waiters that collided once would otherwise collide again.
  constexpr int kLongestPauseUs = 8'000;
  const int most_us = std::min(1'000 + attempt * 100, kLongestPauseUs);
  std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution(most_us / 2, most_us)(random)));
  return 1;
}

} // namespace

std::chrono::milliseconds patience() noexcept { return current_patience; }

ReadPatience::ReadPatience(std::chrono::milliseconds patience) noexcept
    : before_(std::exchange(current_patience, patience)) {}
ReadPatience::~ReadPatience() { current_patience = before_; }

void wait_for_others(sqlite3* connection) { sqlite3_busy_handler(connection, &pause_before_next, nullptr); }

std::shared_ptr<std::timed_mutex> write_turn(const std::filesystem::path& file) {
  static std::mutex guard;
  static std::map<std::string, std::weak_ptr<std::timed_mutex>> turns;
  const std::lock_guard lock(guard);
  std::erase_if(turns, [](const auto& entry) { return entry.second.expired(); });
  auto& known = turns[file.string()];
  auto turn = known.lock();
  if (!turn) known = turn = std::make_shared<std::timed_mutex>();
  return turn;
}

} // namespace mc2::store
