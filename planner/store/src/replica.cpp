#include <SQLiteCpp/Column.h>
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

/// The URL of the leader; empty if the store is not a replica.
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

/// Removes the row that a document had replaced, for a change whose own document is gone by now.
void remove_replaced(SQLite::Database& database, Table table, const Change& change) {
  if (!traits_of(table).has_unique_key) return;
  SQLite::Statement remove(database,
                           "DELETE FROM " + std::string(traits_of(table).name) + " WHERE " + key_condition(table));
  bind_key(remove, table, {change.op, change.fingerprint_digest, change.purpose});
  remove.exec();
}

/// Records a change exactly as the leader did, in place of the record that a trigger has made.
void note(SQLite::Database& database, Table table, const Change& change) {
  SQLite::Statement statement(
      database,
      "INSERT OR REPLACE INTO change (fingerprint_digest, kind, m, n, k, dtype, world_size, purpose, revision, "
      "table_name, "
      "is_removal, digest, row_id, nonce) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)");
  bind_key(statement, Table::Plan, {change.op, change.fingerprint_digest, change.purpose});
  statement.bind(9, change.revision);
  statement.bind(10, std::string(traits_of(table).name));
  statement.bind(11, change.is_removal ? 1 : 0);
  statement.bind(12, change.digest);
  statement.bind(13, change.row->row_id);
  statement.bind(14, change.row->nonce);
  statement.exec();
}

/// Checks that the machines of all changes are there. Errors: Malformed.
Result<void> require_machines(const Changes& changes) {
  std::set<std::string> known;
  for (const RawFingerprint& machine : changes.machines) known.insert(machine.digest);
  for (const Change& change : changes.changes)
    if (!known.contains(change.fingerprint_digest))
      return Error{ErrorCode::Malformed, "machines", "lack " + change.fingerprint_digest.substr(0, 64)};
  return {};
}

/// Applies one change. @param before  the revision of the change before it. Errors: Malformed.
Result<void> apply_one(SQLite::Database& database, std::int64_t before, const Change& change) {
  const auto table = table_of(change.document);
  if (!table || !change.row || change.revision <= before)
    return Error{ErrorCode::Malformed, "changes",
                 "change " + std::to_string(change.revision) + " names no row, or does not come after the one before"};
  set_revision(database, change.revision - 1); // so that triggers record the change under the leader's revision
  if (change.is_removal)
    remove_row(database, *table, change);
  else if (change.row->document.empty())
    remove_replaced(database, *table, change);
  else
    put_raw(database, *table, change);
  note(database, *table, change);
  return {};
}

/// Turns triggers off while it lives. They would record the copied documents as changes of this store.
class TriggersOff {
 public:
  explicit TriggersOff(SQLite::Database& database) : handle_(database.getHandle()) { set(0); }
  ~TriggersOff() { set(1); }
  TriggersOff(const TriggersOff&) = delete;
  TriggersOff& operator=(const TriggersOff&) = delete;

 private:
  void set(int are_on) { sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_TRIGGER, are_on, nullptr); }
  sqlite3* handle_;
};

/// Attaches a snapshot to the store's connection, as "snapshot", while it lives.
class Attached {
 public:
  Attached(SQLite::Database& database, const std::filesystem::path& snapshot) : database_(database) {
    SQLite::Statement attach(database, "ATTACH ?1 AS snapshot");
    attach.bind(1, snapshot.string());
    attach.exec();
  }
  ~Attached() { static_cast<void>(database_.tryExec("DETACH snapshot")); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  SQLite::Database& database_;
};

std::int64_t number(SQLite::Database& database, const std::string& query) {
  return database.execAndGet(query).getInt64();
}

/// Whether the snapshot has exactly this store's schema, without e.g. foreign triggers.
bool is_of_this_mc2(SQLite::Database& database) {
  const std::string differ =
      "SELECT count(*) FROM (SELECT type, name, tbl_name, sql FROM %1 EXCEPT SELECT type, name, tbl_name, sql FROM %2)";
  const auto count = [&](const char* one, const char* other) {
    std::string query = differ;
    query.replace(query.find("%1"), 2, one).replace(query.find("%2"), 2, other);
    return number(database, query);
  };
  return number(database, "PRAGMA main.user_version") == number(database, "PRAGMA snapshot.user_version") &&
         count("main.sqlite_master", "snapshot.sqlite_master") == 0 &&
         count("snapshot.sqlite_master", "main.sqlite_master") == 0;
}

/// Copies documents, recorded changes and revision of the snapshot. Triggers must be off.
void copy_documents(SQLite::Database& database) {
  for (const char* table : {"plan", "model", "sample_batch", "measurement", "fingerprint", "change"})
    database.exec("DELETE FROM main." + std::string(table));
  for (const char* table : {"fingerprint", "plan", "model", "sample_batch", "measurement", "change"})
    database.exec("INSERT INTO main." + std::string(table) + " SELECT * FROM snapshot." + table);
  database.exec(
      "UPDATE main.revision SET value = (SELECT value FROM snapshot.revision), identity = (SELECT identity FROM "
      "snapshot.revision)");
}

void mark(SQLite::Database& database, const std::string& leader) {
  SQLite::Statement statement(database, "INSERT OR REPLACE INTO main.replica (id, leader) VALUES (1, ?1)");
  statement.bind(1, leader);
  statement.exec();
}

Error another_store(const std::string& leader) {
  return {
      ErrorCode::Mismatch, leader,
      "now has another store than the one that this replica followed, or an earlier copy of it; follow it with a new "
      "--store"};
}

bool has_documents(SQLite::Database& database) {
  return number(database,
                "SELECT EXISTS (SELECT 1 FROM main.plan) + EXISTS (SELECT 1 FROM main.model) + EXISTS (SELECT 1 FROM "
                "main.sample_batch) + EXISTS (SELECT 1 FROM main.measurement)") > 0;
}

} // namespace

Result<void> Store::Impl::require_no_replica() const {
  const std::string leader = leader_in(database);
  if (leader.empty()) return {};
  return error(ErrorCode::ReadOnly, "is a replica of " + leader +
                                        "; send documents there, or make it a store of its "
                                        "own: mc2 serve without --follow");
}

Result<Position> Store::position() const {
  return impl_->read("Store::position", [&]() -> Result<Position> {
    MC2_ASSIGN(const auto revision, impl_->revision());
    const auto nonce = impl_->nonce_of(revision);
    if (!nonce) return impl_->error(ErrorCode::Corrupt, "has lost the note of its last change");
    return Position{revision, *nonce};
  });
}

std::optional<std::int64_t> Store::Impl::nonce_of(std::int64_t revision) const {
  SQLite::Statement statement(database, "SELECT nonce FROM change WHERE revision = ?1");
  statement.bind(1, revision);
  return statement.executeStep() ? std::optional(statement.getColumn(0).getInt64()) : std::nullopt;
}

Result<bool> Store::has_been_at(const Position& position) const {
  return impl_->read("Store::has_been_at", [&]() -> Result<bool> {
    // A file that was copied over another may have the same change counter, by which SQLite tells whether its pages
    // hold.
    sqlite3_db_release_memory(impl_->database.getHandle());
    MC2_ASSIGN(const auto newest, impl_->revision());
    if (position.revision > newest) return false;
    if (const auto nonce = impl_->nonce_of(position.revision)) return *nonce == position.nonce;
    return position.revision < impl_->oldest_told(); // too old to be told
  });
}

Result<Changes> Store::rows_since(const Position& position) const {
  return impl_->read("Store::rows_since", [&]() -> Result<Changes> {
    MC2_ASSIGN(const auto newest, impl_->revision());
    const auto nonce = impl_->nonce_of(position.revision);
    if (position.revision > newest || (nonce && *nonce != position.nonce))
      return Error{
          ErrorCode::Mismatch, "since",
          "is a position of another store, or of a state that was undone here; a replica follows this store with a new "
          "--store"};
    MC2_ASSIGN(auto changes, impl_->changes_since(position.revision, std::numeric_limits<int>::max(), true));
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
  MC2_TRY(Store::open(snapshot, OpenMode::ReadOnly)); // refuses a file that is no store or not whole
  return guarded(impl_->path, "Store::become_replica", [&]() -> Result<void> {
    const Attached attached(impl_->database, snapshot);
    const TriggersOff off(impl_->database);
    return impl_->write("Store::become_replica", [&]() -> Result<void> { return impl_->take_over(leader); });
  });
}

Result<void> Store::Impl::take_over(const std::string& leader) {
  if (!is_of_this_mc2(database))
    return Error{ErrorCode::Malformed, leader,
                 "has sent something other than a snapshot of a store of this mc2 version"};
  const bool is_replica = !leader_in(database).empty();
  if (!is_replica && has_documents(database))
    return error(ErrorCode::InvalidSpec, "has documents of its own, which following " + leader +
                                             " would remove; mc2 push sends them there, and another --store begins "
                                             "empty");
  const bool goes_on = number(database,
                              "SELECT s.identity = o.identity AND s.value >= o.value FROM snapshot.revision "
                              "AS s, main.revision AS o") != 0;
  if (is_replica && !goes_on) return another_store(leader);
  copy_documents(database);
  mark(database, leader);
  return {};
}

Result<void> Store::set_leader(const std::string& leader) {
  return impl_->write("Store::set_leader", [&]() -> Result<void> {
    if (leader_in(impl_->database).empty()) return impl_->error(ErrorCode::Mismatch, "is no replica");
    mark(impl_->database, leader);
    return {};
  });
}

Result<void> Store::apply(std::int64_t since, const Changes& changes) {
  return impl_->write("Store::apply", [&]() -> Result<void> {
    MC2_ASSIGN(const auto now, impl_->revision());
    if (leader_in(impl_->database).empty() || now != since || changes.revision < since)
      return impl_->error(ErrorCode::Mismatch,
                          "is no replica of epoch " + std::to_string(since) + ", but of " + std::to_string(now));
    MC2_TRY(require_machines(changes));
    for (const RawFingerprint& machine : changes.machines) put_machine(impl_->database, machine);
    std::int64_t before = since;
    for (const Change& change : changes.changes) {
      MC2_TRY(apply_one(impl_->database, before, change));
      before = change.revision;
    }
    if (changes.revision != before) return Error{ErrorCode::Malformed, "epoch", "is not that of the last change"};
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
