#pragma once

#include <sqlite3.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>

namespace mc2::store {

/// How long a call waits for others that use the same file.
inline constexpr std::chrono::seconds kLongestWait{10};

/// Makes a connection wait for those that hold the file, asking again after a millisecond or a few. SQLite's own
/// handler asks every 100 ms in the end: among many writers some then wait for ever.
void wait_for_others(sqlite3* connection);

/// Held by whoever writes a file, so that of all threads of this process one at a time competes with other processes.
/// @param file  canonical
[[nodiscard]] std::shared_ptr<std::timed_mutex> write_turn(const std::filesystem::path& file);

} // namespace mc2::store
