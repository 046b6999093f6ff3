#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Transaction.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "mc2/store/store.hpp"
#include "records.hpp"
#include "sqlite_errors.hpp"
#include "waiting.hpp"

namespace mc2::store {

struct Store::Impl {
  std::filesystem::path path; ///< as the caller named it
  OpenMode mode;
  mutable SQLite::Database database;      ///< mutable for reads, which change nothing that a caller can see
  std::shared_ptr<std::timed_mutex> turn; ///< write_turn(), co-owned by all stores of this process for the same file

  [[nodiscard]] Error error(ErrorCode code, std::string message) const {
    return {code, path.string(), std::move(message)};
  }
  /// The same error with the store's path as its field, unless it already has a field.
  [[nodiscard]] Error located(const Error& error) const {
    return error.field.empty() ? this->error(error.code, error.message) : error;
  }

  /// Runs `body` in a transaction that takes the write lock at its start, so that it never waits for the lock later.
  /// Errors: ReadOnly, and those of `body`, which roll the transaction back.
  template <typename Body>
  auto write(const char* call, Body&& body) -> decltype(body()) {
    if (mode != OpenMode::ReadWrite)
      return error(ErrorCode::ReadOnly, "is open read-only; name a store that you may write to");
    // If the wait for the turn times out, the transaction still tries; SQLite then reports whether it got the lock.
    const ReadPatience full(kLongestWait);
    const std::unique_lock others_wait(*turn, kLongestWait);
    return guarded(path, call, [&]() -> decltype(body()) {
      SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
      auto result = body();
      if (result) transaction.commit();
      return result;
    });
  }

  /// As write(), for changes of documents. Errors: ReadOnly for a replica, too.
  template <typename Body>
  auto write_documents(const char* call, Body&& body) -> decltype(body()) {
    return write(call, [&]() -> decltype(body()) {
      MC2_TRY(require_no_replica());
      return body();
    });
  }
  /// Call within a transaction. Errors: ReadOnly for a replica.
  [[nodiscard]] Result<void> require_no_replica() const;

  /// Errors: Corrupt.
  [[nodiscard]] Result<std::int64_t> revision() const;
  /// The nonce of the change that made a revision; none if that change is not recorded.
  [[nodiscard]] std::optional<std::int64_t> nonce_of(std::int64_t revision) const;
  /// From which revision on changes are recorded; 0 if none is.
  [[nodiscard]] std::int64_t oldest_told() const;
  /// Takes over the documents of the attached database "snapshot". Call within a transaction. Errors: as
  /// Store::become_replica.
  [[nodiscard]] Result<void> take_over(const std::string& leader);
  /// The changes since a revision. @param with_rows  as read_changes(). Errors: as Store::changes_since.
  [[nodiscard]] Result<Changes> changes_since(std::int64_t since, int limit, bool with_rows) const;

  /// Runs `body` in a read transaction, so that it sees the store at one moment.
  template <typename Body>
  auto read(const char* call, Body&& body) const -> decltype(body()) {
    return guarded(path, call, [&]() -> decltype(body()) {
      const SQLite::Transaction transaction(database);
      return body();
    });
  }

  /// Keeps one document in its own transaction. Returns its digest.
  [[nodiscard]] Result<std::string> put(const char* call, Table table, const planner::Fingerprint& fingerprint,
                                        Record record, const MayReplace& may_replace = {});
  /// Asks `may_replace`, if there is one, about the kept document. Call within a transaction. Errors: Stale if it
  /// returns false.
  [[nodiscard]] Result<void> require_replaceable(const std::optional<Record>& kept,
                                                 const MayReplace& may_replace) const;
};

} // namespace mc2::store
