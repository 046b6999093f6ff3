#pragma once

#include <SQLiteCpp/Exception.h>

#include <filesystem>

#include "mc2/planner/error.hpp"

namespace mc2::store {

/// True for the codes by which SQLite reports a damaged file, rather than one that it cannot reach.
[[nodiscard]] bool is_damage(const SQLite::Exception& exception) noexcept;

/// The Error that an SQLite failure amounts to: Corrupt for damage, ReadOnly for a refused write.
/// Throws: SystemError for everything else: a full disk, I/O errors, a lock held too long.
[[nodiscard]] Error to_error(const SQLite::Exception& exception, const std::filesystem::path& path, const char* call);

/// The one wrapper around calls into SQLite. `body` returns a Result; a transaction in it is rolled back on the way
/// out.
template <typename Body>
auto guarded(const std::filesystem::path& path, const char* call, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& exception) {
    return to_error(exception, path, call);
  }
}

} // namespace mc2::store
