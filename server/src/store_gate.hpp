#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "mc2/store/store.hpp"

namespace mc2::server {

/// Which file a path leads to, whatever it is called.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0; ///< 0 and 0 for no file
  bool operator==(const FileIdentity&) const = default;
};

/// The one way to the store: a single writer, and a connection for everyone who reads at a time.
class StoreGate {
 public:
  /// Told at once and after every change of the store, on a thread of the gate's own: one call at a time.
  using OnChange = std::function<Result<void>(const store::Store&)>;

  /// Errors: as store::Store::open, and those of the first call of `on_change`. Throws SystemError.
  [[nodiscard]] static Result<std::unique_ptr<StoreGate>> open(const std::filesystem::path& path, OnChange on_change);

  /// Runs `body` on a connection of its own. Errors: those of `body`, and of opening one.
  template <typename Body>
  auto read(const Body& body) -> decltype(body(std::declval<const store::Store&>())) {
    MC2_ASSIGN(auto lent, borrow());
    auto result = body(std::as_const(*lent));
    give_back(std::move(lent)); // one that threw is not used again
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

  /// store::Store::revision(), at most about kStaleness old: a thread of its own asks the file, so that those who want
  /// to know wait neither for it nor for one another. Own writes show at once.
  [[nodiscard]] std::int64_t revision() const noexcept { return revision_; }

  /// Whether the file could be read when it was last looked at.
  [[nodiscard]] bool is_readable() const noexcept { return is_readable_; }
  /// Whether another file, or none, stood in the file's place then: open connections go on with what nobody else sees.
  [[nodiscard]] bool is_gone() const noexcept { return is_gone_; }

  static constexpr std::chrono::milliseconds kStaleness{50};

 private:
  StoreGate(std::filesystem::path path, store::Store writer, OnChange on_change);
  [[nodiscard]] Result<std::unique_ptr<store::Store>> borrow();
  void give_back(std::unique_ptr<store::Store> reader);
  void raise_revision(std::int64_t seen);
  /// The writer's mutex is held.
  void refresh_now();
  /// Errors: those of reading, and of `on_change`.
  [[nodiscard]] Result<void> look();
  void watch(const std::stop_token& ends);

  std::filesystem::path path_;
  FileIdentity opened_file_; ///< what path_ led to when the writer opened it
  std::mutex writer_mutex_;
  store::Store writer_; ///< under writer_mutex_
  std::mutex readers_mutex_;
  std::vector<std::unique_ptr<store::Store>> readers_; ///< idle; under readers_mutex_
  std::atomic<std::int64_t> revision_{0};
  std::atomic<bool> is_readable_{true};
  std::atomic<bool> is_gone_{false};
  OnChange on_change_;
  std::int64_t told_revision_ = -1; ///< the watcher's own, once it runs
  std::jthread watcher_;            ///< last, so that it ends first
};

} // namespace mc2::server
