#include "mc2/store/backup.hpp"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "file_place.hpp"
#include "mc2/store/store.hpp"
#include "sqlite_errors.hpp"
#include "waiting.hpp"

/// Copies of a store that is in use.
namespace mc2::store {
namespace {

namespace fs = std::filesystem;

/// An unfinished copy, in a file beside the target. The file is removed unless finish() succeeds.
class Draft {
 public:
  explicit Draft(const fs::path& target) : target_(target), path_(target.string() + ".part") {}
  ~Draft() {
    std::error_code ignored;
    if (!is_finished_) fs::remove(path_, ignored);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  [[nodiscard]] const fs::path& path() const noexcept { return path_; }

  /// Gives the copy the target's name. Errors: InvalidSpec if the name was taken meanwhile. Throws: SystemError.
  [[nodiscard]] Result<void> finish() {
    flush(path_, O_RDONLY);
    if (::link(path_.c_str(), target_.c_str()) != 0) {
      if (errno == EEXIST) return taken(target_);
      fail("link");
    }
    ::unlink(path_.c_str());
    is_finished_ = true;
    flush(target_.parent_path(), O_RDONLY | O_DIRECTORY);
    return {};
  }

  [[nodiscard]] static Error taken(const fs::path& target) {
    return {ErrorCode::InvalidSpec, target.string(), "is there already; name a file that does not exist yet"};
  }

 private:
  [[noreturn]] void fail(const char* call) const {
    throw StorageError(std::string(call) + " " + target_.string(), errno, std::strerror(errno));
  }
  void flush(const fs::path& place, int flags) const {
    const int file = ::open(place.c_str(), flags | O_CLOEXEC);
    if (file < 0) fail("open");
    const int result = ::fsync(file);
    ::close(file);
    if (result != 0) fail("fsync");
  }

  fs::path target_, path_;
  bool is_finished_ = false;
};

/// Leaves a replica's start in a copy. Without triggers, which would record the removals as changes.
void keep_documents(SQLite::Database& copy, const std::string& without_purpose) {
  sqlite3_db_config(copy.getHandle(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  copy.exec("PRAGMA journal_mode = OFF; DELETE FROM token; DELETE FROM history; DELETE FROM replica");
  SQLite::Statement remove(copy, "DELETE FROM plan WHERE ?1 <> '' AND substr(purpose, 1, length(?1)) = ?1");
  remove.bind(1, without_purpose);
  remove.exec();
  copy.exec("VACUUM");
}

/// @param without_purpose  as of take_snapshot(); null: copies all
void copy_database(const fs::path& from, const fs::path& to, const std::string* without_purpose) {
  SQLite::Database source(from.string(), SQLite::OPEN_READONLY);
  wait_for_others(source.getHandle());
  SQLite::Database copy(to.string(), SQLite::OPEN_READWRITE);
  SQLite::Backup backup(copy, source);
  // In one step: with several, a writer in between would make the copy start again.
  if (const int code = backup.executeStep(-1); code != SQLITE_DONE)
    throw SQLite::Exception("the store is locked", code);
  if (without_purpose != nullptr) keep_documents(copy, *without_purpose);
}

Result<void> copy(const fs::path& from, const fs::path& to, const std::string* without_purpose) {
  if (to.empty()) return Error{ErrorCode::InvalidSpec, "FILE", "the path is empty; name a file, e.g. backup.db"};
  // Opening rolls back the journal of a killed writer, and refuses a file that is no store.
  MC2_TRY(Store::open(from, OpenMode::ReadOnly));
  const fs::path target = fs::absolute(to);
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(target, ignored))) return Draft::taken(to);
  Draft draft(target);
  fs::remove(draft.path(), ignored); // may be left by a copy that was killed
  MC2_TRY(prepare_writable(draft.path()));
  return guarded(to, "back_up", [&]() -> Result<void> {
    copy_database(fs::absolute(from), draft.path(), without_purpose);
    return draft.finish();
  });
}

} // namespace

Result<void> back_up(const fs::path& from, const fs::path& to) { return copy(from, to, nullptr); }

Result<void> take_snapshot(const fs::path& from, const fs::path& to, const std::string& without_purpose) {
  return copy(from, to, &without_purpose);
}

} // namespace mc2::store
