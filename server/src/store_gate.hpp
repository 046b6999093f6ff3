#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mc2/store/store.hpp"

namespace mc2::server {

/// Identifies the file that a path leads to, independent of the path.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0; ///< 0 and 0 for no file
  bool operator==(const FileIdentity&) const = default;
};

/// The state of the store's file.
enum class StoreState : std::uint8_t {
  Well,
  Gone,       ///< its path has another file or none: open connections use a file that nobody else sees
  Unreadable, ///< at the last look
  Rewound,    ///< an earlier copy, or another store, was written over the file
  DiskFull,   ///< less free space than `least_free_bytes`: there may be no room for the next document
};

/// The only access to the store: one connection for writing, and a connection for each concurrent reader. Threads: safe
/// to share.
class StoreGate {
 public:
  /// Called by open(), and after every change of the store's tokens: by write() for its own, else on the gate's own
  /// thread. One call at a time. After an error it is called again.
  using OnTokens = std::function<Result<void>(const store::Store&)>;
  /// Called on the gate's own thread when the state has changed. @param advice  empty: the store is well again
  using OnState = std::function<void(const std::string& advice)>;
  /// Called as soon as revision() rises, on the thread that has seen it.
  using OnRise = std::function<void()>;

  /// @param least_free_bytes  free space below which the file's disk counts as full
  /// Errors: as store::Store::open, and those of the first call of `on_tokens`. Throws SystemError.
  [[nodiscard]] static Result<std::unique_ptr<StoreGate>> open(const std::filesystem::path& path,
                                                               std::uint64_t least_free_bytes, OnTokens on_tokens,
                                                               OnState on_state, OnRise on_rise);

  /// Runs `body` on a read connection that no other thread uses meanwhile. Errors: those of `body`, and of opening a
  /// connection.
  template <typename Body>
  auto read(const Body& body) -> decltype(body(std::declval<const store::Store&>())) {
    MC2_ASSIGN(auto lent, borrow());
    auto result = body(std::as_const(*lent));
    // Not after an exception or damage: that connection is closed. It would go on with the damaged file's tables after
    // the file was mended.
    if (result.ok() || result.error().code != ErrorCode::Corrupt) give_back(std::move(lent));
    return result;
  }

  /// Errors: Unreadable, with advice, if the store's path has another file than the one that was opened, or an earlier
  /// copy of it or another store was written over it.
  [[nodiscard]] Result<void> require_own_file() const;

  /// Runs `body` on the write connection, one call at a time. Errors: those of `body` and of require_own_file().
  template <typename Body>
  auto write(const Body& body) -> decltype(body(std::declval<store::Store&>())) {
    const std::lock_guard lock(writer_mutex_);
    MC2_TRY(require_own_file());
    MC2_TRY(require_own_course());
    auto result = body(writer_);
    refresh_now();
    return result;
  }

  /// store::Store::revision() as of at most about kStaleness ago. The gate's own thread reads the file, so that callers
  /// neither wait for it nor for one another. Writes through this gate show at once.
  [[nodiscard]] std::int64_t revision() const noexcept { return revision_; }

  /// The state at the last look, at most about kStaleness ago.
  [[nodiscard]] StoreState state() const noexcept { return state_; }

  /// What an operator should do about a state; empty for Well.
  [[nodiscard]] std::string advice(StoreState state) const;

  static constexpr std::chrono::milliseconds kStaleness{50};

 private:
  StoreGate(std::filesystem::path path, std::uint64_t least_free_bytes, store::Store writer, OnTokens on_tokens,
            OnState on_state, OnRise on_rise);
  [[nodiscard]] Result<std::unique_ptr<store::Store>> borrow();
  void give_back(std::unique_ptr<store::Store> reader);
  void raise_revision(std::int64_t seen);
  [[nodiscard]] std::optional<store::Position> position();
  /// Sets the position, unless it is no longer `before`.
  void change_position(const std::optional<store::Position>& before, const store::Position& now);
  /// Errors: Unreadable, with advice, if the file's history lacks what this service knows of it. The caller holds
  /// writer_mutex_.
  [[nodiscard]] Result<void> require_own_course();
  /// Reads the position, the revision and the tokens after a write. The caller holds writer_mutex_.
  void refresh_now();
  /// Reads the revision and, if they have changed, the tokens. Errors: those of reading, and of `on_tokens`.
  [[nodiscard]] Result<void> look();
  /// Calls `on_tokens` if the tokens have changed. Errors: those of reading, and of `on_tokens`.
  [[nodiscard]] Result<void> tell_tokens(const store::Store& store);
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
  std::mutex position_mutex_;
  std::optional<store::Position> position_; ///< the newest that the file is known to have; under position_mutex_
  std::atomic<StoreState> state_{StoreState::Well};
  std::atomic<std::uint64_t> free_bytes_{0}; ///< of the store's disk at the last look
  OnTokens on_tokens_;
  OnState on_state_;
  OnRise on_rise_;
  std::mutex tokens_mutex_;             ///< guards told_tokens_ and calls of on_tokens_
  std::int64_t told_tokens_ = -1;       ///< of the tokens that on_tokens_ took
  std::atomic<bool> is_rewound_{false}; ///< another copy was written over the file
  std::jthread watcher_;                ///< last, so that it is destroyed first
};

} // namespace mc2::server
