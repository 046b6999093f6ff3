#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mc2/store/store.hpp"

namespace mc2::server {

/// The one way to the store: a single writer, and a connection for everyone who reads at a time.
class StoreGate {
 public:
  /// Errors: as store::Store::open. Throws SystemError.
  [[nodiscard]] static planner::Result<std::unique_ptr<StoreGate>> open(const std::filesystem::path& path);

  /// Runs `body` on a connection of its own. Errors: those of `body`, and of opening one.
  template <typename Body>
  auto read(const Body& body) -> decltype(body(std::declval<const store::Store&>())) {
    auto lent = borrow();
    if (!lent) return lent.error();
    auto result = body(std::as_const(*lent.value()));
    give_back(std::move(lent).value()); // one that threw is not used again
    return result;
  }

  /// Runs `body` alone. Errors: those of `body`.
  template <typename Body>
  auto write(const Body& body) -> decltype(body(std::declval<store::Store&>())) {
    const std::lock_guard lock(writer_mutex_);
    auto result = body(writer_);
    refresh_now();
    return result;
  }

  /// store::Store::revision(), at most kStaleness old: the file is asked by one caller, the others go on meanwhile. Own writes
  /// show at once.
  [[nodiscard]] std::int64_t revision();

  static constexpr std::chrono::milliseconds kStaleness{50};

 private:
  using Clock = std::chrono::steady_clock;

  StoreGate(std::filesystem::path path, store::Store writer);
  [[nodiscard]] planner::Result<std::unique_ptr<store::Store>> borrow();
  void give_back(std::unique_ptr<store::Store> reader);
  /// The writer's mutex is held.
  void refresh_now();

  std::filesystem::path path_;
  std::mutex writer_mutex_;
  store::Store writer_; ///< under writer_mutex_
  std::mutex readers_mutex_;
  std::vector<std::unique_ptr<store::Store>> readers_; ///< idle; under readers_mutex_
  std::atomic<std::int64_t> revision_{0};
  std::atomic<Clock::rep> checked_at_{0};
};

} // namespace mc2::server
