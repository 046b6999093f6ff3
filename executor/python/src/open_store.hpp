#pragma once

#include <filesystem>
#include <mutex>
#include <optional>

#include "convert.hpp"
#include "mc2/store/store.hpp"

namespace mc2::python {

/// A store that threads may share: calls take turns, and none goes to a closed one.
class OpenStore {
 public:
  OpenStore(const std::filesystem::path& path, bool read_only)
      : store_(unwrap(store::Store::open(path, read_only ? store::OpenMode::ReadOnly : store::OpenMode::ReadWrite))),
        path_(path) {}

  /// What the body makes of the store, or Failure.
  template <typename Body>
  auto use(const Body& body) {
    return unwrap(ask(body));
  }
  /// The same, as a Result.
  template <typename Body>
  auto ask(const Body& body) {
    const std::lock_guard lock(mutex_);
    if (!store_) throw Failure({ErrorCode::InvalidSpec, "store", path_.string() + " is closed; open it anew"});
    return body(*store_);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    store_.reset();
  }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::mutex mutex_;
  std::optional<store::Store> store_;
  std::filesystem::path path_;
};

} // namespace mc2::python
