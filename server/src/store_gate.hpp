#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
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

/// What becomes of the store's file.
enum class StoreState : std::uint8_t {
  Well,
  Gone,       ///< another file, or none, stands in its place: open connections go on with what nobody else sees
  Unreadable, ///< when it was last looked at
  Rewound,    ///< an earlier copy was written over it
  DiskFull,   ///< less room than was asked for: the next document might not be kept
};

/// What to do about it; empty for Well.
[[nodiscard]] std::string_view advice(StoreState state) noexcept;

/// The one way to the store: a single writer, and a connection for everyone who reads at a time.
class StoreGate {
 public:
  /// Told at once and after every change of the store's tokens, on a thread of the gate's own: one call at a time.
  using OnTokens = std::function<Result<void>(const store::Store&)>;
  /// Told when the state has become another one, on the same thread.
  using OnState = std::function<void(StoreState)>;
  /// Told as soon as revision() rises, on whatever thread has seen it.
  using OnRise = std::function<void()>;

  /// @param least_free_bytes  of the file's disk, below which it counts as full
  /// Errors: as store::Store::open, and those of the first call of `on_tokens`. Throws SystemError.
  [[nodiscard]] static Result<std::unique_ptr<StoreGate>> open(const std::filesystem::path& path,
                                                               std::uint64_t least_free_bytes, OnTokens on_tokens,
                                                               OnState on_state, OnRise on_rise);

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

  /// When it was last looked at.
  [[nodiscard]] StoreState state() const noexcept { return state_; }

  static constexpr std::chrono::milliseconds kStaleness{50};

 private:
  StoreGate(std::filesystem::path path, std::uint64_t least_free_bytes, store::Store writer, OnTokens on_tokens,
            OnState on_state, OnRise on_rise);
  [[nodiscard]] Result<std::unique_ptr<store::Store>> borrow();
  void give_back(std::unique_ptr<store::Store> reader);
  void raise_revision(std::int64_t seen);
  /// The writer's mutex is held.
  void refresh_now();
  /// Errors: those of reading, and of `on_tokens`.
  [[nodiscard]] Result<void> look();
  [[nodiscard]] StoreState look_at_file();
  void watch(const std::stop_token& ends);

  std::filesystem::path path_;
  std::uint64_t least_free_bytes_;
  FileIdentity opened_file_; ///< what path_ led to when the writer opened it
  std::mutex writer_mutex_;
  store::Store writer_; ///< under writer_mutex_
  std::mutex readers_mutex_;
  std::vector<std::unique_ptr<store::Store>> readers_; ///< idle; under readers_mutex_
  std::atomic<std::int64_t> revision_{0};
  std::atomic<StoreState> state_{StoreState::Well};
  OnTokens on_tokens_;
  OnState on_state_;
  OnRise on_rise_;
  std::int64_t told_tokens_ = -1; ///< the watcher's own, once it runs: their revision
  int looks_behind_ = 0;          ///< likewise: in a row that saw an earlier revision than was known before
  bool is_rewound_ = false;       ///< likewise
  std::jthread watcher_;          ///< last, so that it ends first
};

} // namespace mc2::server
