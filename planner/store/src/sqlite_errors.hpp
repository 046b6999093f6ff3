#pragma once

#include <SQLiteCpp/Exception.h>

#include <filesystem>

#include "mc2/planner/error.hpp"

namespace mc2::store {

/// Whether SQLite reports a damaged file, rather than a file that it cannot access.
[[nodiscard]] bool is_damage(const SQLite::Exception& exception) noexcept;

/// Turns a failure of SQLite into an Error: Corrupt for damage, ReadOnly for a refused write.
/// Throws: SystemError for all other failures: a full disk, I/O errors, a lock held too long.
[[nodiscard]] Error to_error(const SQLite::Exception& exception, const std::filesystem::path& path, const char* call);

/// The one wrapper around calls into SQLite. Runs `body`, which returns a Result, and turns SQLite's exceptions into
/// Errors by to_error(). An exception rolls back a transaction in `body`.
template <typename Body>
auto guarded(const std::filesystem::path& path, const char* call, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& exception) {
    return to_error(exception, path, call);
  }
}

} // namespace mc2::store
