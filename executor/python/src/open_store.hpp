#pragma once

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <mutex>

#include "convert.hpp"
#include "mc2/store/store.hpp"

namespace mc2::python {

/// A store that threads may share: their calls take turns. A call on a closed store throws Failure. So does a call in a
/// forked child of the process that opened it, and the destructor does not close it there: SQLite's connections must
/// neither be used nor closed in a child.
class OpenStore {
 public:
  OpenStore(const std::filesystem::path& path, bool read_only)
      : store_(std::make_unique<store::Store>(
            unwrap(store::Store::open(path, read_only ? store::OpenMode::ReadOnly : store::OpenMode::ReadWrite)))),
        path_(path) {}
  OpenStore(const OpenStore&) = delete;
  OpenStore& operator=(const OpenStore&) = delete;
  ~OpenStore() {
    if (is_inherited()) (void)store_.release(); // NOLINT: must not be closed in a child
  }

  /// The value of body(store). Throws Failure for its error.
  template <typename Body>
  auto use(const Body& body) {
    return unwrap(ask(body));
  }
  /// The Result of body(store).
  template <typename Body>
  auto ask(const Body& body) {
    if (is_inherited()) // before the mutex, which a thread of the parent may have held during fork()
      throw Failure({ErrorCode::InvalidSpec, "store",
                     path_.string() + " was opened before this process was forked; open it after the fork"});
    const std::lock_guard lock(mutex_);
    if (!store_) throw Failure({ErrorCode::InvalidSpec, "store", path_.string() + " is closed; open it anew"});
    return body(*store_);
  }
  void close() {
    if (is_inherited()) return;
    const std::lock_guard lock(mutex_);
    store_.reset();
  }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  [[nodiscard]] bool is_inherited() const noexcept { return ::getpid() != owner_; }

  const pid_t owner_ = ::getpid();
  std::mutex mutex_;
  std::unique_ptr<store::Store> store_;
  std::filesystem::path path_;
};

} // namespace mc2::python
