#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Exception.h>
#include <sqlite3.h>

#include <limits>
#include <set>

#include "mc2/store/store.hpp"
#include "migrations.hpp"
#include "store_impl.hpp"

/// A store whose documents are another one's.
namespace mc2::store {
namespace {

constexpr std::size_t kMostRowBytes = 32U << 20U;

/// Empty for none.
std::string leader_in(SQLite::Database& database) {
  if (read_schema_state(database).version < kHasReplicas) return {};
  SQLite::Statement statement(database, "SELECT leader FROM replica WHERE id = 1");
  return statement.executeStep() ? statement.getColumn(0).getString() : "";
}

std::vector<RawFingerprint> read_machines(const SQLite::Database& database, const Changes& changes) {
  std::set<std::string> digests;
  for (const Change& change : changes.changes) digests.insert(change.fingerprint_digest);
  std::vector<RawFingerprint> machines;
  SQLite::Statement find(database, "SELECT id, digest, document, checksum FROM fingerprint WHERE digest = ?1");
  for (const std::string& digest_text : digests) {
    find.reset();
    find.bind(1, digest_text);
    if (find.executeStep())
      machines.push_back({find.getColumn(0).getInt64(), find.getColumn(1).getString(), find.getColumn(2).getString(),
                          find.getColumn(3).getString()});
  }
  return machines;
}

void put_machine(SQLite::Database& database, const RawFingerprint& machine) {
  SQLite::Statement statement(database,
                              "INSERT INTO fingerprint (id, digest, document, checksum) VALUES (?1, ?2, ?3, ?4) ON "
                              "CONFLICT (digest) DO UPDATE SET document = excluded.document, checksum = "
                              "excluded.checksum");
  statement.bind(1, machine.row_id);
  statement.bind(2, machine.digest);
  statement.bind(3, machine.document);
  statement.bind(4, machine.checksum);
  statement.exec();
}

void set_revision(SQLite::Database& database, std::int64_t revision) {
  SQLite::Statement statement(database, "UPDATE revision SET value = ?1 WHERE id = 1");
  statement.bind(1, revision);
  statement.exec();
}

void remove_row(SQLite::Database& database, Table table, const Change& change) {
  SQLite::Statement remove(database,
                           "DELETE FROM " + std::string(traits_of(table).name) + " WHERE id = ?1 AND digest = ?2");
  remove.bind(1, change.row->row_id);
  remove.bind(2, change.digest);
  remove.exec();
}

/// What a document has replaced that is gone itself by now.
void remove_replaced(SQLite::Database& database, Table table, const Change& change) {
  if (!traits_of(table).has_unique_key) return;
  SQLite::Statement remove(database,
                           "DELETE FROM " + std::string(traits_of(table).name) + " WHERE " + key_condition(table));
  bind_key(remove, table, {change.op, change.fingerprint_digest, change.purpose});
  remove.exec();
}

/// Notes a change as its leader did, in place of what a trigger has noted.
void note(SQLite::Database& database, Table table, const Change& change) {
  SQLite::Statement statement(
      database,
      "INSERT OR REPLACE INTO change (fingerprint_digest, kind, m, n, k, dtype, world_size, purpose, revision, "
      "table_name, "
      "is_removal, digest, row_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)");
  bind_key(statement, Table::Plan, {change.op, change.fingerprint_digest, change.purpose});
  statement.bind(9, change.revision);
  statement.bind(10, std::string(traits_of(table).name));
  statement.bind(11, change.is_removal ? 1 : 0);
  statement.bind(12, change.digest);
  statement.bind(13, change.row->row_id);
  statement.exec();
}

/// Errors: Malformed.
Result<void> apply_one(SQLite::Database& database, std::int64_t before, const Change& change) {
  const auto table = table_of(change.document);
  if (!table || !change.row || change.revision <= before)
    return Error{ErrorCode::Malformed, "changes",
                 "change " + std::to_string(change.revision) + " names no row, or does not come after the one before"};
  set_revision(database, change.revision - 1); // so that triggers note it under its leader's
  if (change.is_removal)
    remove_row(database, *table, change);
  else if (change.row->document.empty())
    remove_replaced(database, *table, change);
  else
    put_raw(database, *table, change);
  note(database, *table, change);
  return {};
}

/// Puts what is this store's own into a snapshot of its leader. The snapshot is changed.
void adopt_own(SQLite::Database& snapshot, const std::filesystem::path& own, const std::string& leader) {
  SQLite::Statement attach(snapshot, "ATTACH ?1 AS own");
  attach.bind(1, own.string());
  attach.exec();
  SQLite::Transaction transaction(snapshot);
  snapshot.exec(
      "DELETE FROM token; DELETE FROM history; DELETE FROM replica; INSERT INTO token SELECT * FROM own.token; "
      "INSERT INTO history SELECT * FROM own.history; "
      "UPDATE revision SET token_value = (SELECT token_value FROM own.revision)");
  SQLite::Statement mark(snapshot, "INSERT INTO replica (id, leader) VALUES (1, ?1)");
  mark.bind(1, leader);
  mark.exec();
  transaction.commit();
  mark.reset();
  snapshot.exec("DETACH own");
}

/// Whether no document was ever kept, but by its leader.
bool is_replaceable(SQLite::Database& database) {
  return !leader_in(database).empty() ||
         database.execAndGet(
                     "SELECT EXISTS (SELECT 1 FROM plan) + EXISTS (SELECT 1 FROM model) + EXISTS (SELECT 1 "
                     "FROM sample_batch) + EXISTS (SELECT 1 FROM measurement)")
                 .getInt64() == 0;
}

} // namespace

Result<void> Store::Impl::require_no_replica() const {
  const std::string leader = leader_in(database);
  if (leader.empty()) return {};
  return error(ErrorCode::ReadOnly, "is a replica of " + leader +
                                        "; send documents there, or make it a store of its "
                                        "own: mc2 serve without --follow");
}

Result<Changes> Store::rows_since(std::int64_t revision) const {
  return impl_->read("Store::rows_since", [&]() -> Result<Changes> {
    MC2_ASSIGN(auto changes, impl_->changes_since(revision, std::numeric_limits<int>::max(), true));
    changes.machines = read_machines(impl_->database, changes);
    std::size_t bytes = 0;
    for (Change& change : changes.changes) {
      const auto table = table_of(change.document);
      if (change.is_removal || !table) continue;
      change.row = read_raw(impl_->database, *table, change);
      bytes += change.row->document.size();
      if (bytes > kMostRowBytes)
        return Error{ErrorCode::Stale, "since", "is too long ago: the documents since then have more than 32 MiB"};
    }
    return changes;
  });
}

Result<std::string> Store::leader() const {
  return impl_->read("Store::leader", [&]() -> Result<std::string> { return leader_in(impl_->database); });
}

Result<void> Store::become_replica(const std::string& leader, const std::filesystem::path& snapshot) {
  MC2_TRY(Store::open(snapshot, OpenMode::ReadWrite));
  // Its right to write, and that it may, are looked at first: the copying itself is no transaction of ours.
  MC2_TRY(impl_->write("Store::become_replica", [&]() -> Result<void> {
    if (is_replaceable(impl_->database)) return {};
    return impl_->error(ErrorCode::InvalidSpec,
                        "has documents of its own, which following " + leader +
                            " would remove; mc2 push sends them there, and another --store begins empty");
  }));
  return guarded(impl_->path, "Store::become_replica", [&]() -> Result<void> {
    SQLite::Database source(snapshot.string(), SQLite::OPEN_READWRITE);
    adopt_own(source, impl_->database.getFilename(), leader);
    SQLite::Backup backup(impl_->database, source);
    if (const int code = backup.executeStep(-1); code != SQLITE_DONE)
      throw SQLite::Exception("the store is locked", code);
    return {};
  });
}

Result<void> Store::apply(std::int64_t since, const Changes& changes) {
  return impl_->write("Store::apply", [&]() -> Result<void> {
    MC2_ASSIGN(const auto now, impl_->revision());
    if (leader_in(impl_->database).empty() || now != since || changes.revision < since)
      return impl_->error(ErrorCode::Mismatch,
                          "is no replica of epoch " + std::to_string(since) + ", but of " + std::to_string(now));
    for (const RawFingerprint& machine : changes.machines) put_machine(impl_->database, machine);
    std::int64_t before = since;
    for (const Change& change : changes.changes) {
      MC2_TRY(apply_one(impl_->database, before, change));
      before = change.revision;
    }
    set_revision(impl_->database, changes.revision);
    return {};
  });
}

Result<void> Store::stop_following() {
  return impl_->write("Store::stop_following", [&]() -> Result<void> {
    impl_->database.exec("DELETE FROM replica");
    return {};
  });
}

} // namespace mc2::store
