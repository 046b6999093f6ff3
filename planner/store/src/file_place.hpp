#pragma once

#include <filesystem>
#include <string_view>

#include "mc2/planner/error.hpp"

/// What the file system must offer before SQLite may open a store there.
namespace mc2::store {

/// Creates what is missing of the directory (mode 0700) and the empty file (mode 0600), each flushed to disk.
/// Errors: InvalidSpec (not a regular file, or a parent that is not a directory), ReadOnly (cannot be created or
/// written), Unsupported (network file system).
/// Throws: SystemError for I/O errors and a full disk.
[[nodiscard]] Result<void> prepare_writable(const std::filesystem::path& path);

/// What is said of an empty store: NotFound.
[[nodiscard]] Error nothing_kept(const std::filesystem::path& path);

/// Errors: InvalidSpec (not a regular file), NotFound (missing or empty), Unreadable (no permission).
[[nodiscard]] Result<void> require_readable(const std::filesystem::path& path);

/// Name of a network file system whose locks SQLite cannot rely on, or empty.
/// @param magic  statfs f_type
[[nodiscard]] std::string_view network_file_system(long magic) noexcept;

/// As above for a FUSE mount, by its type in /proc/self/mountinfo, e.g. "fuse.sshfs".
[[nodiscard]] std::string_view network_fuse_type(std::string_view mount_type) noexcept;

} // namespace mc2::store
