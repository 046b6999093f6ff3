#pragma once

#include <filesystem>
#include <string>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// Copies a store, as a reader sees it at one moment, to a file that does not exist yet (mode 0600). The copy is
/// durable when the call returns. Others may use the store meanwhile; a writer waits at most until the copy is made.
/// Errors: as Store::open with ReadOnly for `from`; InvalidSpec (`to` exists already), ReadOnly, Unsupported (`to` is
/// on a network file system). Throws: SystemError for I/O errors, a full disk, and a store that others lock for more
/// than 10 s.
[[nodiscard]] Result<void> back_up(const std::filesystem::path& from, const std::filesystem::path& to);

/// As back_up(), but without tokens and history, which belong to the store itself: the start of a replica.
/// @param without_purpose  leaves out plans whose purpose begins with this; empty: none
[[nodiscard]] Result<void> take_snapshot(const std::filesystem::path& from, const std::filesystem::path& to,
                                         const std::string& without_purpose = {});

} // namespace mc2::store

#pragma GCC visibility pop
