#pragma once

#include <filesystem>
#include <string_view>

#include "mc2/planner/error.hpp"

/// Checks of the file system before SQLite opens a store.
namespace mc2::store {

/// Creates missing directories (mode 0700) and, if missing, the empty file (mode 0600), and flushes each to disk.
/// Errors: InvalidSpec (not a regular file, or a parent that is not a directory), ReadOnly (cannot be created or
/// written), Unsupported (network file system).
/// Throws: SystemError for I/O errors and a full disk.
[[nodiscard]] Result<void> prepare_writable(const std::filesystem::path& path);

/// The error NotFound for an empty store.
[[nodiscard]] Error nothing_kept(const std::filesystem::path& path);

/// Checks that a file can be read. Errors: InvalidSpec (not a regular file), NotFound (missing or empty), Unreadable
/// (no permission).
[[nodiscard]] Result<void> require_readable(const std::filesystem::path& path);

/// Name of a network file system whose locks SQLite cannot rely on, or empty.
/// @param magic  statfs f_type
[[nodiscard]] std::string_view network_file_system(long magic) noexcept;

/// As network_file_system(), for a FUSE mount, by its type in /proc/self/mountinfo, e.g. "fuse.sshfs".
[[nodiscard]] std::string_view network_fuse_type(std::string_view mount_type) noexcept;

} // namespace mc2::store
