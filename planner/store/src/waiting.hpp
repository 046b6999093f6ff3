#pragma once

#include <sqlite3.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>

namespace mc2::store {

/// The longest time that a call waits for other users of the same file, unless a ReadPatience makes it shorter.
inline constexpr std::chrono::seconds kLongestWait{10};

/// How long calls of this thread wait now.
[[nodiscard]] std::chrono::milliseconds patience() noexcept;

/// Makes a connection wait if others have locked the file. It tries again every few milliseconds. SQLite's own handler
/// slows down to every 100 ms, so that among many writers some never get the lock.
void wait_for_others(sqlite3* connection);

/// The mutex to hold while writing a file. So only one thread of this process at a time competes with other processes.
/// @param file  canonical path
[[nodiscard]] std::shared_ptr<std::timed_mutex> write_turn(const std::filesystem::path& file);

} // namespace mc2::store
