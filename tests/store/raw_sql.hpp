#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <string>

namespace mc2::store {

/// A connection that does not know the store's rules.
class RawConnection {
 public:
  explicit RawConnection(const std::filesystem::path& path) {
    EXPECT_EQ(sqlite3_open(path.c_str(), &handle_), SQLITE_OK);
  }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;
  ~RawConnection() { sqlite3_close(handle_); }

  void execute(const std::string& sql) {
    EXPECT_EQ(sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle_);
  }

 private:
  sqlite3* handle_ = nullptr;
};

/// Changes a store's file without the store.
inline void execute(const std::filesystem::path& path, const std::string& sql) { RawConnection(path).execute(sql); }

} // namespace mc2::store
