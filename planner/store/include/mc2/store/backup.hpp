#pragma once

#include <filesystem>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// Copies a store as it is at one moment, what a reader sees then, to a file that does not exist yet (mode 0600);
/// durable when the call returns. Others may read and write the store meanwhile; a writer waits for at most the
/// copying. Errors: as Store::open for reading `from`; InvalidSpec (there is something at `to`), ReadOnly, Unsupported
/// (`to` is on a network file system). Throws: SystemError for I/O errors, a full disk, and a store that others lock
/// for more than 10 s.
[[nodiscard]] Result<void> back_up(const std::filesystem::path& from, const std::filesystem::path& to);

/// The same of documents alone, for a replica to begin with: without tokens and history, which are the store's own.
[[nodiscard]] Result<void> take_snapshot(const std::filesystem::path& from, const std::filesystem::path& to);

} // namespace mc2::store

#pragma GCC visibility pop
