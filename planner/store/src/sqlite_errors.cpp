#include "sqlite_errors.hpp"

#include <sqlite3.h>

#include <string>

#include "mc2/planner/text.hpp"
#include "waiting.hpp"

namespace mc2::store {
namespace {

std::string advice(int primary_code) {
  switch (primary_code) {
    case SQLITE_FULL: return "the disk is full; free some space and try again, nothing already kept was lost";
    case SQLITE_IOERR: return "an input/output error; check the disk, nothing already kept was lost";
    case SQLITE_BUSY:
      return "another process has held the store for " + number_text(1e-3 * static_cast<double>(patience().count())) +
             " s; wait for it to finish and try again";
    case SQLITE_CANTOPEN: return "the store or its journal cannot be opened; check that its directory still exists";
    case SQLITE_NOMEM: return "out of memory";
    default: return "unexpected failure";
  }
}

} // namespace

bool is_damage(const SQLite::Exception& exception) noexcept {
  // mc2's statements are fixed, so SQLITE_ERROR means that the file does not have the schema that they expect. A
  // failed constraint means a broken index, since the constraints cannot fail otherwise.
  switch (exception.getErrorCode() & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_ERROR:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG: return true;
    case SQLITE_IOERR: return exception.getExtendedErrorCode() == SQLITE_IOERR_SHORT_READ;
    default: return false;
  }
}

Error to_error(const SQLite::Exception& exception, const std::filesystem::path& path, const char* call) {
  const std::string said = exception.what();
  if ((exception.getErrorCode() & 0xFF) == SQLITE_NOTADB) // its first page is foreign or lost: nothing to salvage
    return {ErrorCode::Corrupt, path.string(),
            "is no mc2 store (" + said +
                "); name another file, restore it from an export or a backup, or move it away to start afresh"};
  if (is_damage(exception))
    return {
        ErrorCode::Corrupt, path.string(),
        "is no undamaged mc2 store (" + said + "); salvage it with 'mc2 db export', or move it away to start afresh"};
  const int primary_code = exception.getErrorCode() & 0xFF;
  const int code = exception.getExtendedErrorCode();
  if (code == SQLITE_READONLY_CANTINIT || code == SQLITE_READONLY_RECOVERY || code == SQLITE_READONLY_CANTLOCK)
    return {ErrorCode::ReadOnly, path.string(),
            "is in SQLite's WAL mode, which another program set, and can only be read where files may be made beside "
            "it (" +
                said + "); let a user who may write it run any command of mc2 that writes, which ends that mode"};
  if (primary_code == SQLITE_READONLY)
    return {ErrorCode::ReadOnly, path.string(), "cannot be written (" + said + "); name a store that you may write to"};
  throw StorageError(call, exception.getExtendedErrorCode(),
                     path.string() + ": " + advice(primary_code) + " (" + said + ")");
}

} // namespace mc2::store
